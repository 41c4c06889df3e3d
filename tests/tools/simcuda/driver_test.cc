// Initialisation, devices, contexts, errors of the simulated driver.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <thread>

#include "tests/tools/simcuda/simulated.h"

namespace cuheap::testing {
namespace {

TEST(DriverTest, BeforeInitOnlyTheDocumentedFunctionsWork) {
  Simulate({}, [] {
    int number = 0;
    CUdeviceptr address = 0;
    CUcontext context = nullptr;
    const char* text = nullptr;
    void* function = nullptr;
    EXPECT_EQ(cuDeviceGetCount(&number), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_EQ(cuMemAlloc(&address, 1), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_EQ(cuCtxGetCurrent(&context), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_EQ(cuGraphCreate(nullptr, 0), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_CUDA(cuDriverGetVersion(&number));
    EXPECT_GE(number, 13000);
    EXPECT_CUDA(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
    EXPECT_STREQ(text, "CUDA_ERROR_OUT_OF_MEMORY");
    EXPECT_CUDA(cuGetProcAddress("cuInit", &function, 2000, 0, nullptr));
    EXPECT_EQ(cuInit(1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CUDA(cuInit(0));
    EXPECT_CUDA(cuDeviceGetCount(&number));
    EXPECT_EQ(number, 1);
  });
}

TEST(DriverTest, AForkedChildIsNotInitialised) {
  Simulate({}, [] {
    UseDevice();
    const pid_t child = fork();
    if (child == 0) {
      int number = 0;
      CUdeviceptr address = 0;
      const bool right = cuDeviceGetCount(&number) == CUDA_ERROR_NOT_INITIALIZED &&
                         cuMemAlloc(&address, 1) == CUDA_ERROR_NOT_INITIALIZED &&
                         cuInit(0) == CUDA_ERROR_NOT_INITIALIZED && cuDriverGetVersion(&number) == CUDA_SUCCESS;
      _exit(right ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_NE(Allocate(1), 0u);  // the parent goes on
  });
}

TEST(DriverTest, BadEnvironmentIsNamedAndInitFails) {
  for (const auto& [name, value] : Environment{{"SIMCUDA_DEVICES", "many"},
                                               {"SIMCUDA_MODEL", "h1000"},
                                               {"SIMCUDA_MODEL", "a100"},
                                               {"SIMCUDA_MODEL", "nvidia"},
                                               {"SIMCUDA_MEMORY", "-3GiB"},
                                               {"SIMCUDA_ORDER", "sometimes"},
                                               {"SIMCUDA_SEED", "1x"},
                                               {"SIMCUDA_FREE_SYNC", "yes"},
                                               {"SIMCUDA_FILL", "256"},
                                               {"SIMCUDA_FILL", "0x"},
                                               {"SIMCUDA_FAULT", "cuMemAlloc_v2:0:2"}}) {
    ::testing::internal::CaptureStderr();
    Simulate({{name, value}}, [] {
      EXPECT_EQ(cuInit(0), CUDA_ERROR_INVALID_VALUE);
      int number = 0;
      EXPECT_EQ(cuDeviceGetCount(&number), CUDA_ERROR_NOT_INITIALIZED);
    });
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("simcuda: " + name + "=" + value + ": expected"), std::string::npos) << said;
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  }
}

TEST(DriverTest, AModelMayBeNamedAsPeopleDo) {
  const std::pair<std::string, std::string> names[] = {{"H100", "NVIDIA H100 80GB HBM3"},
                                                       {"A100-80GB", "NVIDIA A100-SXM4-80GB"},
                                                       {"a100 40g", "NVIDIA A100-SXM4-40GB"},
                                                       {"NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB"},
                                                       {"RTX_4090", "NVIDIA GeForce RTX 4090"},
                                                       {"GeForce RTX 3090", "NVIDIA GeForce RTX 3090"},
                                                       {"Tesla T4", "Tesla T4"},
                                                       {"V100-32GB", "Tesla V100-SXM2-32GB"}};
  for (const auto& [name, device] : names) {
    Simulate({{"SIMCUDA_MODEL", name}}, [&] {
      ASSERT_CUDA(cuInit(0));
      char told[64];
      EXPECT_CUDA(cuDeviceGetName(told, sizeof told, 0));
      EXPECT_EQ(told, device);
    });
  }
}

TEST(DriverTest, DevicesAreThoseOfTheTable) {
  Simulate({{"SIMCUDA_DEVICES", "3"}, {"SIMCUDA_MODEL", "t4"}, {"SIMCUDA_MEMORY", "1.5GiB"}}, [] {
    ASSERT_CUDA(cuInit(0));
    int number = 0;
    ASSERT_CUDA(cuDeviceGetCount(&number));
    EXPECT_EQ(number, 3);
    CUdevice device = 0;
    EXPECT_EQ(cuDeviceGet(&device, 3), CUDA_ERROR_INVALID_DEVICE);
    EXPECT_EQ(cuDeviceGet(&device, -1), CUDA_ERROR_INVALID_DEVICE);
    std::set<std::string> uuids, places;
    for (int i = 0; i < 3; ++i) {
      CUuuid uuid;
      char place[20];
      CUdevice back = -1;
      EXPECT_CUDA(cuDeviceGetUuid(&uuid, i));
      uuids.insert(std::string(uuid.bytes, 16));
      EXPECT_CUDA(cuDeviceGetPCIBusId(place, sizeof place, i));
      places.insert(place);
      EXPECT_CUDA(cuDeviceGetByPCIBusId(&back, place));
      EXPECT_EQ(back, i);
    }
    EXPECT_EQ(uuids.size(), 3u);
    EXPECT_EQ(places.size(), 3u);
    char name[64];
    EXPECT_CUDA(cuDeviceGetName(name, sizeof name, 0));
    EXPECT_STREQ(name, "Tesla T4");
    size_t bytes = 0;
    EXPECT_CUDA(cuDeviceTotalMem(&bytes, 2));
    EXPECT_EQ(bytes, size_t{3} << 29);
    const auto get = [](CUdevice_attribute attribute) {
      int value = -1;
      EXPECT_CUDA(cuDeviceGetAttribute(&value, attribute, 0));
      return value;
    };
    EXPECT_EQ(get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR), 7);
    EXPECT_EQ(get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR), 5);
    EXPECT_EQ(get(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT), 40);
    EXPECT_EQ(get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR), 1024);
    EXPECT_EQ(get(CU_DEVICE_ATTRIBUTE_WARP_SIZE), 32);
    EXPECT_EQ(cuDeviceGetAttribute(&number, CU_DEVICE_ATTRIBUTE_MAX, 0), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(DriverTest, VisibleDevicesSelectAndOrder) {
  Simulate({{"SIMCUDA_DEVICES", "4"}, {"CUDA_VISIBLE_DEVICES", "2,0,7,1"}}, [] {
    ASSERT_CUDA(cuInit(0));
    int number = 0, bus = 0;
    EXPECT_CUDA(cuDeviceGetCount(&number));
    EXPECT_EQ(number, 2);  // only those before the first that does not exist
    EXPECT_CUDA(cuDeviceGetAttribute(&bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 0));
    EXPECT_EQ(bus, 3);
  });
  Simulate({{"CUDA_VISIBLE_DEVICES", ""}}, [] { EXPECT_EQ(cuInit(0), CUDA_ERROR_NO_DEVICE); });
  Simulate({{"SIMCUDA_DEVICES", "0"}}, [] { EXPECT_EQ(cuInit(0), CUDA_ERROR_NO_DEVICE); });
}

TEST(DriverTest, CallsWithoutAContextAreRefused) {
  Simulate({}, [] {
    ASSERT_CUDA(cuInit(0));
    CUdeviceptr address = 0;
    CUstream stream = nullptr;
    CUdevice device = 0;
    EXPECT_EQ(cuMemAlloc(&address, 1), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuStreamCreate(&stream, 0), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuCtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuStreamSynchronize(nullptr), CUDA_ERROR_INVALID_CONTEXT);
    CUcontext context = nullptr;
    EXPECT_CUDA(cuCtxGetCurrent(&context));
    EXPECT_EQ(context, nullptr);
  });
}

TEST(DriverTest, PrimaryContextCountsItsUsers) {
  Simulate({}, [] {
    ASSERT_CUDA(cuInit(0));
    unsigned flags = 9;
    int active = 9;
    CUcontext first = nullptr, second = nullptr;
    EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_CUDA(cuDevicePrimaryCtxGetState(0, &flags, &active));
    EXPECT_EQ(active, 0);
    EXPECT_CUDA(cuDevicePrimaryCtxRetain(&first, 0));
    EXPECT_CUDA(cuDevicePrimaryCtxRetain(&second, 0));
    EXPECT_EQ(first, second);
    EXPECT_CUDA(cuCtxSetCurrent(first));
    const size_t free_before = FreeBytes();
    Allocate(4 << 20);
    EXPECT_CUDA(cuDevicePrimaryCtxRelease(0));
    EXPECT_CUDA(cuDevicePrimaryCtxGetState(0, &flags, &active));
    EXPECT_EQ(active, 1);
    EXPECT_CUDA(cuDevicePrimaryCtxRelease(0));
    EXPECT_CUDA(cuDevicePrimaryCtxGetState(0, &flags, &active));
    EXPECT_EQ(active, 0);
    CUdeviceptr address = 0;
    EXPECT_EQ(cuMemAlloc(&address, 1), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    // The memory went with the context.
    EXPECT_CUDA(cuDevicePrimaryCtxRetain(&first, 0));
    EXPECT_EQ(FreeBytes(), free_before);
  });
}

TEST(DriverTest, ResetDestroysEverythingButKeepsTheReferences) {
  Simulate({}, [] {
    const CUcontext context = UseDevice();
    const size_t free_before = FreeBytes();
    const CUdeviceptr block = Allocate(4 << 20);
    const CUstream stream = MakeStream();
    EXPECT_CUDA(cuDevicePrimaryCtxReset(0));
    CUcontext again = nullptr;
    EXPECT_CUDA(cuDevicePrimaryCtxRetain(&again, 0));
    EXPECT_EQ(again, context);
    EXPECT_EQ(FreeBytes(), free_before);
    EXPECT_EQ(cuMemFree(block), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_CUDA(cuDevicePrimaryCtxRelease(0));
    EXPECT_CUDA(cuDevicePrimaryCtxRelease(0));
    EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
  });
}

TEST(DriverTest, ContextStackIsPerThread) {
  Simulate({}, [] {
    const CUcontext primary = UseDevice();
    CUcontext own = nullptr, current = nullptr, popped = nullptr;
    ASSERT_CUDA(cuCtxCreate(&own, nullptr, CU_CTX_SCHED_AUTO, 0));
    EXPECT_CUDA(cuCtxGetCurrent(&current));
    EXPECT_EQ(current, own);
    std::thread([&] {
      CUcontext seen = own;
      EXPECT_CUDA(cuCtxGetCurrent(&seen));
      EXPECT_EQ(seen, nullptr);
      EXPECT_EQ(cuCtxPopCurrent(&seen), CUDA_ERROR_INVALID_CONTEXT);
      EXPECT_CUDA(cuCtxPushCurrent(primary));
    }).join();
    EXPECT_CUDA(cuCtxPopCurrent(&popped));
    EXPECT_EQ(popped, own);
    EXPECT_CUDA(cuCtxGetCurrent(&current));
    EXPECT_EQ(current, primary);
    EXPECT_CUDA(cuCtxSetCurrent(nullptr));
    EXPECT_CUDA(cuCtxGetCurrent(&current));
    EXPECT_EQ(current, nullptr);
    EXPECT_EQ(cuCtxSetCurrent(reinterpret_cast<CUcontext>(0x1234)), CUDA_ERROR_INVALID_CONTEXT);
  });
}

TEST(DriverTest, DestroyedContextTakesItsMemoryAndIsNoticed) {
  Simulate({}, [] {
    const CUcontext primary = UseDevice();
    const size_t free_before = FreeBytes();
    CUcontext own = nullptr;
    ASSERT_CUDA(cuCtxCreate(&own, nullptr, 0, 0));
    const CUdeviceptr block = Allocate(6 << 20);
    EXPECT_CUDA(cuCtxSetCurrent(primary));
    EXPECT_CUDA(cuCtxPushCurrent(own));
    EXPECT_CUDA(cuCtxDestroy(own));
    // It was current here, so it was popped.
    CUcontext current = nullptr;
    EXPECT_CUDA(cuCtxGetCurrent(&current));
    EXPECT_EQ(current, primary);
    EXPECT_EQ(FreeBytes(), free_before);
    EXPECT_EQ(cuMemFree(block), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuCtxDestroy(own), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuCtxDestroy(primary), CUDA_ERROR_INVALID_CONTEXT);
  });
}

TEST(DriverTest, PeerAccessIsATableOfPairs) {
  Simulate({{"SIMCUDA_DEVICES", "2"}}, [] {
    const CUcontext first = UseDevice(0);
    const CUcontext second = UseDevice(1);
    int can = 0;
    EXPECT_CUDA(cuDeviceCanAccessPeer(&can, 0, 1));
    EXPECT_EQ(can, 1);
    EXPECT_CUDA(cuDeviceCanAccessPeer(&can, 1, 1));
    EXPECT_EQ(can, 0);
    EXPECT_EQ(cuCtxDisablePeerAccess(first), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    EXPECT_CUDA(cuCtxEnablePeerAccess(first, 0));
    EXPECT_EQ(cuCtxEnablePeerAccess(first, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    EXPECT_EQ(cuCtxEnablePeerAccess(second, 0), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_CUDA(cuCtxDisablePeerAccess(first));
  });
}

TEST(DriverTest, UnsimulatedFunctionsFailAndAreNamedOnce) {
  ::testing::internal::CaptureStderr();
  Simulate({}, [] {
    UseDevice();
    CUgraphConditionalHandle handle = 0;
    EXPECT_EQ(cuGraphConditionalHandleCreate(&handle, nullptr, nullptr, 0, 0), CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(cuGraphConditionalHandleCreate(&handle, nullptr, nullptr, 0, 0), CUDA_ERROR_NOT_SUPPORTED);
  });
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(said, "simcuda: cuGraphConditionalHandleCreate is not simulated; it answers CUDA_ERROR_NOT_SUPPORTED\n");
}

TEST(DriverTest, TheStaticRuntimeIsToldHowToBeCompiled) {
  ::testing::internal::CaptureStderr();
  Simulate({}, [] {
    const void* table = nullptr;
    UseDevice();
    const CUuuid id = {};
    EXPECT_EQ(cuGetExportTable(&table, &id), CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(cuGetExportTable(&table, &id), CUDA_ERROR_NOT_SUPPORTED);
  });
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("nvcc -cudart shared"), std::string::npos) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 2) << said;
}

TEST(DriverTest, EveryErrorHasANameAndAText) {
  Simulate({}, [] {
    const char *name = nullptr, *text = nullptr;
    for (CUresult error : {CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_ILLEGAL_ADDRESS,
                           CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_CAPTURED_EVENT, CUDA_ERROR_UNKNOWN}) {
      EXPECT_CUDA(cuGetErrorName(error, &name));
      EXPECT_EQ(std::string(name).rfind("CUDA_", 0), 0u) << error;
      EXPECT_CUDA(cuGetErrorString(error, &text));
      EXPECT_NE(std::string(text), "");
    }
    EXPECT_EQ(cuGetErrorName(static_cast<CUresult>(12345), &name), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(name, nullptr);
  });
}

}  // namespace
}  // namespace cuheap::testing
