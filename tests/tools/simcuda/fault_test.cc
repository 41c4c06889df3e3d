// Injected faults, and errors that a context keeps.
#include <atomic>
#include <string>

#include "tests/tools/simcuda/simulated.h"

namespace cuheap::testing {
namespace {

TEST(FaultTest, TheNthCallFailsAndIsNotCarriedOut) {
  Simulate({{"SIMCUDA_FAULT", "cuMemAlloc_v2:2:2,cuStreamCreate:1:999"}}, [] {
    UseDevice();
    const size_t before = FreeBytes();
    CUdeviceptr block = 0;
    CUstream stream = nullptr;
    EXPECT_CUDA(cuMemAlloc(&block, 100));
    EXPECT_EQ(cuMemAlloc(&block, 100), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_CUDA(cuMemAlloc(&block, 100));
    EXPECT_EQ(before - FreeBytes(), size_t{2} << 20);
    EXPECT_EQ(cuStreamCreate(&stream, 0), CUDA_ERROR_UNKNOWN);
    EXPECT_CUDA(cuStreamCreate(&stream, 0));
  });
}

TEST(FaultTest, AStickyFaultLosesTheContext) {
  Simulate({{"SIMCUDA_FAULT", "cuCtxSynchronize:1:700:sticky"}}, [] {
    UseDevice();
    const CUstream stream = MakeStream();
    const CUdeviceptr block = Allocate(100);
    auto* word = AllocatePinned<uint32_t>(1);
    *word = 5;
    EXPECT_CUDA(cuMemcpyDtoHAsync(word, block, 4, stream));
    EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    CUdeviceptr other = 0;
    CUevent event = nullptr;
    EXPECT_EQ(cuMemAlloc(&other, 1), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(cuMemFree(block), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(cuEventCreate(&event, 0), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(*word, 5u);  // queued work is dropped
    // Another context of the device goes on.
    CUcontext fresh = nullptr;
    EXPECT_CUDA(cuCtxCreate(&fresh, nullptr, 0, 0));
    EXPECT_NE(Allocate(1), 0u);
  });
}

TEST(FaultTest, FaultsCanBeInjectedAndClearedAtRunTime) {
  Simulate({}, [] {
    UseDevice();
    CUdeviceptr block = 0;
    EXPECT_CUDA(simcuda_inject("cuMemAllocAsync", 1, CUDA_ERROR_OUT_OF_MEMORY, 0));
    EXPECT_EQ(cuMemAllocAsync(&block, 1, nullptr), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_CUDA(cuMemAllocAsync(&block, 1, nullptr));
    EXPECT_CUDA(simcuda_inject("cuMemAllocAsync", 1, CUDA_ERROR_OUT_OF_MEMORY, 0));
    simcuda_clear_faults();
    EXPECT_CUDA(cuMemAllocAsync(&block, 1, nullptr));
    EXPECT_EQ(simcuda_inject(nullptr, 1, CUDA_ERROR_OUT_OF_MEMORY, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(simcuda_inject("cuInit", 0, CUDA_ERROR_OUT_OF_MEMORY, 0), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(FaultTest, PerThreadVariantsCountAsTheSameFunction) {
  Simulate({{"SIMCUDA_FAULT", "cuStreamSynchronize:2:702"}}, [] {
    UseDevice();
    void* function = nullptr;
    EXPECT_CUDA(cuGetProcAddress("cuStreamSynchronize", &function, 7000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
                                 nullptr));
    auto* per_thread = reinterpret_cast<CUresult (*)(CUstream)>(function);
    EXPECT_CUDA(cuStreamSynchronize(nullptr));
    EXPECT_EQ(per_thread(nullptr), CUDA_ERROR_LAUNCH_TIMEOUT);
    EXPECT_CUDA(per_thread(nullptr));
  });
}

TEST(FaultTest, CallbacksOfALostContextGetItsError) {
  Simulate({}, [] {
    UseDevice();
    static std::atomic<int> status{-1};
    static std::atomic<bool> host_function_ran{false};
    const CUstream stream = MakeStream();
    EXPECT_CUDA(simcuda_launch_hidden(
        stream,
        [](const SimcudaLaunch*) {
          simcuda_fail_context(CUDA_ERROR_LAUNCH_FAILED);
          return 0;
        },
        nullptr));
    EXPECT_CUDA(cuLaunchHostFunc(stream, [](void*) { host_function_ran = true; }, nullptr));
    EXPECT_CUDA(cuStreamAddCallback(stream, [](CUstream, CUresult result, void*) { status = result; }, nullptr, 0));
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_LAUNCH_FAILED);
    EXPECT_EQ(status, CUDA_ERROR_LAUNCH_FAILED);
    EXPECT_FALSE(host_function_ran);
  });
}

}  // namespace
}  // namespace cuheap::testing
