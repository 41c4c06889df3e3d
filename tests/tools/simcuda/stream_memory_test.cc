// Stream memory operations, whole-context events, batches of copies, hints.
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/tools/simcuda/simulated.h"

namespace cuheap::testing {
namespace {

TEST(StreamMemoryTest, AWaitHoldsItsStreamUntilTheHostWrites) {
  for (const char* order : {"late", "random", "eager"}) {
    Simulate({{"SIMCUDA_ORDER", order}}, [] {
      UseDevice();
      auto* word = AllocatePinned<std::atomic<uint32_t>>(1);
      *word = 5;
      const CUstream stream = MakeStream();
      const CUdeviceptr block = Allocate(4);
      EXPECT_CUDA(cuStreamWaitValue32(stream, reinterpret_cast<CUdeviceptr>(word), 7, CU_STREAM_WAIT_VALUE_GEQ));
      EXPECT_CUDA(cuMemsetD32Async(block, 3, 1, stream));
      for (int i = 0; i < 20; ++i) EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
      std::thread writer([word] {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        *word = 8;
      });
      EXPECT_CUDA(cuStreamSynchronize(stream));
      writer.join();
    });
  }
}

TEST(StreamMemoryTest, AnotherStreamsWriteIsSeenThoughNobodyWaitsForIt) {
  for (const char* order : {"late", "random", "eager"}) {
    Simulate({{"SIMCUDA_ORDER", order}, {"SIMCUDA_PROGRESS_MS", "0"}}, [] {
      UseDevice();
      const CUstream waiter = MakeStream(), writer = MakeStream();
      const CUdeviceptr word = Allocate(8);
      EXPECT_CUDA(cuMemsetD8(word, 0, 8));
      EXPECT_CUDA(cuCtxSynchronize());
      EXPECT_CUDA(cuStreamWaitValue64(waiter, word, 9, CU_STREAM_WAIT_VALUE_EQ));
      EXPECT_CUDA(cuStreamWriteValue64(writer, word, 9, 0));
      EXPECT_CUDA(cuStreamSynchronize(waiter));
    });
  }
}

TEST(StreamMemoryTest, BatchesAndBadArguments) {
  Simulate({}, [] {
    UseDevice();
    const CUstream stream = MakeStream();
    const CUdeviceptr block = Allocate(16);
    CUstreamBatchMemOpParams params[3] = {};
    params[0].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, block, {6}, 0, 0};
    params[1].waitValue = {CU_STREAM_MEM_OP_WAIT_VALUE_32, block, {2}, CU_STREAM_WAIT_VALUE_AND, 0};
    params[2].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, block + 4, {7}, 0, 0};
    EXPECT_CUDA(cuStreamBatchMemOp(stream, 3, params, 0));
    EXPECT_CUDA(cuStreamSynchronize(stream));
    uint32_t words[2] = {};
    EXPECT_CUDA(cuMemcpyDtoH(words, block, 8));
    EXPECT_EQ(words[0], 6u);
    EXPECT_EQ(words[1], 7u);
    EXPECT_EQ(cuStreamWriteValue32(stream, block + 2, 1, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuStreamWriteValue32(stream, block + 16, 1, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuStreamBatchMemOp(stream, 0, params, 0), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(StreamMemoryTest, EventsOfAWholeContext) {
  Simulate({{"SIMCUDA_ORDER", "late"}, {"SIMCUDA_PROGRESS_MS", "0"}}, [] {
    UseDevice();
    const CUstream a = MakeStream(), b = MakeStream();
    const CUdeviceptr block = Allocate(8);
    auto* words = AllocatePinned<uint32_t>(2);
    words[0] = words[1] = 0;
    EXPECT_CUDA(cuMemsetD32Async(block, 1, 1, a));
    EXPECT_CUDA(cuMemcpyDtoHAsync(&words[0], block, 4, a));
    EXPECT_CUDA(cuMemsetD32Async(block + 4, 2, 1, b));
    EXPECT_CUDA(cuMemcpyDtoHAsync(&words[1], block + 4, 4, b));
    const CUevent event = MakeEvent();
    EXPECT_CUDA(cuCtxRecordEvent(nullptr, event));
    EXPECT_CUDA(cuEventSynchronize(event));
    EXPECT_EQ(words[0], 1u);
    EXPECT_EQ(words[1], 2u);
    // And the other way round: every stream waits.
    EXPECT_CUDA(Launch(a, "simcuda_fill", block, uint64_t{1}, 9u));
    EXPECT_CUDA(cuEventRecord(event, a));
    EXPECT_CUDA(cuCtxWaitEvent(nullptr, event));
    EXPECT_CUDA(cuMemcpyDtoHAsync(&words[1], block, 4, b));
    EXPECT_CUDA(cuStreamSynchronize(b));
    EXPECT_EQ(words[1], 9u);
  });
}

TEST(StreamMemoryTest, BatchesOfCopies) {
  Simulate({{"SIMCUDA_ORDER", "late"}, {"SIMCUDA_PROGRESS_MS", "0"}}, [] {
    UseDevice();
    const CUstream stream = MakeStream();
    auto* source = AllocatePinned<uint32_t>(2);
    source[0] = source[1] = 1;
    const CUdeviceptr block = Allocate(8), copy = Allocate(8);
    CUdeviceptr to[] = {block, block + 4},
                from[] = {reinterpret_cast<CUdeviceptr>(&source[0]), reinterpret_cast<CUdeviceptr>(&source[1])};
    size_t sizes[] = {4, 4}, indices[] = {0, 1};
    CUmemcpyAttributes attributes[2] = {};
    attributes[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    attributes[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
    EXPECT_CUDA(cuMemcpyBatchAsync(to, from, sizes, 2, attributes, indices, 2, stream));
    source[0] = source[1] = 2;
    EXPECT_CUDA(cuMemcpyDtoDAsync(copy, block, 8, stream));
    EXPECT_CUDA(cuStreamSynchronize(stream));
    uint32_t words[2] = {};
    EXPECT_CUDA(cuMemcpyDtoH(words, copy, 8));
    EXPECT_EQ(words[0], 2u);
    EXPECT_EQ(words[1], 1u);
    EXPECT_EQ(cuMemcpyBatchAsync(to, from, sizes, 2, attributes, indices, 2, nullptr), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(StreamMemoryTest, HintsAreCheckedAndChangeNothing) {
  Simulate({}, [] {
    UseDevice();
    CUdeviceptr managed = 0;
    ASSERT_CUDA(cuMemAllocManaged(&managed, 100, CU_MEM_ATTACH_GLOBAL));
    *reinterpret_cast<int*>(managed) = 5;
    const CUmemLocation here{CU_MEM_LOCATION_TYPE_DEVICE, 0}, nowhere{CU_MEM_LOCATION_TYPE_DEVICE, 5};
    EXPECT_CUDA(cuMemAdvise(managed, 100, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, here));
    EXPECT_CUDA(cuMemPrefetchAsync(managed, 100, here, 0, nullptr));
    EXPECT_EQ(cuMemPrefetchAsync(managed, 100, nowhere, 0, nullptr), CUDA_ERROR_INVALID_DEVICE);
    EXPECT_EQ(cuMemPrefetchAsync(managed, 101, here, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemAdvise(Allocate(100), 100, CU_MEM_ADVISE_SET_READ_MOSTLY, here), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CUDA(cuStreamAttachMemAsync(nullptr, managed, 0, CU_MEM_ATTACH_HOST));
    EXPECT_CUDA(cuCtxSynchronize());
    EXPECT_EQ(*reinterpret_cast<int*>(managed), 5);
    CUstreamAttrValue value{};
    value.accessPolicyWindow.num_bytes = 77;
    EXPECT_CUDA(cuStreamSetAttribute(nullptr, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, &value));
    value = {};
    EXPECT_CUDA(cuStreamGetAttribute(nullptr, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, &value));
    EXPECT_EQ(value.accessPolicyWindow.num_bytes, 77u);
  });
}

TEST(StreamMemoryTest, SyncMemopsMakesSynchronousCopiesComplete) {
  Simulate({{"SIMCUDA_ORDER", "late"}, {"SIMCUDA_PROGRESS_MS", "0"}}, [] {
    UseDevice();
    const CUdeviceptr a = Allocate(4), b = Allocate(4);
    EXPECT_CUDA(cuMemcpyDtoD(a, b, 4));
    EXPECT_EQ(simcuda_pending_work(), 1u);
    EXPECT_CUDA(cuCtxSynchronize());
    int on = 1;
    EXPECT_CUDA(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a));
    EXPECT_CUDA(cuMemcpyDtoD(a, b, 4));
    EXPECT_EQ(simcuda_pending_work(), 0u);
  });
}

}  // namespace
}  // namespace cuheap::testing
