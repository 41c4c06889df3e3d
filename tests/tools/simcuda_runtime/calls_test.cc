// Which driver calls a runtime call makes, read from the driver's log. What stands between the two (cuheap's preload
// library) relies on it: one driver call each, by the road that the vendor's runtime takes.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::string& LogPath() {
  static const std::string path = testing::TempDir() + "simcuda_calls_" + std::to_string(getpid()) + ".log";
  return path;
}

// Names of the driver functions called so far, in order.
std::vector<std::string> Calls() {
  std::vector<std::string> names;
  std::ifstream log(LogPath());
  for (std::string line; std::getline(log, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    std::string sequence, thread, name;
    words >> sequence >> thread >> name;
    names.push_back(name);
  }
  return names;
}

// The driver calls that `call` makes.
template <typename Function>
std::vector<std::string> CallsOf(Function&& call) {
  const std::size_t before = Calls().size();
  call();
  std::vector<std::string> all = Calls();
  return {all.begin() + static_cast<std::ptrdiff_t>(before), all.end()};
}

class RuntimeCalls : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_EQ(setenv("SIMCUDA_LOG", LogPath().c_str(), 1), 0);
    ASSERT_EQ(setenv("SIMCUDA_ORDER", "eager", 1), 0);
    int count = 0;
    ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);  // starts the driver
    start_ = Calls();
    first_use_ = CallsOf([] { EXPECT_EQ(cudaMalloc(&pointer_, 4096), cudaSuccess); });
  }
  static void TearDownTestSuite() {
    EXPECT_EQ(cudaFree(pointer_), cudaSuccess);
    unlink(LogPath().c_str());
  }

  static std::vector<std::string> start_;
  static std::vector<std::string> first_use_;
  static void* pointer_;
};

std::vector<std::string> RuntimeCalls::start_;
std::vector<std::string> RuntimeCalls::first_use_;
void* RuntimeCalls::pointer_ = nullptr;

TEST_F(RuntimeCalls, StartResolvesEverythingThenReadsTheDevices) {
  ASSERT_GT(start_.size(), 200U);
  std::size_t resolved = 0;
  while (resolved < start_.size() && start_[resolved] == "cuGetProcAddress_v2") ++resolved;
  EXPECT_GT(resolved, 150U);
  EXPECT_THAT(std::vector<std::string>(start_.begin() + static_cast<std::ptrdiff_t>(resolved),
                                       start_.begin() + static_cast<std::ptrdiff_t>(resolved) + 7),
              ElementsAre("cuDriverGetVersion", "cuInit", "cuModuleGetLoadingMode", "cuDeviceGetCount", "cuDeviceGet",
                          "cuDeviceGetName", "cuDeviceTotalMem_v2"));
  EXPECT_EQ(start_.back(), "cuDeviceGetUuid_v2");
}

TEST_F(RuntimeCalls, FirstUseInAThreadBindsThePrimaryContext) {
  EXPECT_THAT(first_use_,
              ElementsAre("cuCtxGetCurrent", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuMemAlloc_v2"));
  std::vector<std::string> other;
  std::thread([&] { other = CallsOf([] { EXPECT_EQ(cudaFree(nullptr), cudaSuccess); }); }).join();
  EXPECT_THAT(other, ElementsAre("cuCtxGetCurrent", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuMemFree_v2"));
}

TEST_F(RuntimeCalls, AllocationsAreOneCall) {
  void* made = nullptr;
  EXPECT_THAT(CallsOf([&] { cudaMalloc(&made, 100); }), ElementsAre("cuMemAlloc_v2"));
  EXPECT_THAT(CallsOf([&] { cudaFree(made); }), ElementsAre("cuMemFree_v2"));
  EXPECT_THAT(CallsOf([&] { cudaFree(nullptr); }), ElementsAre("cuMemFree_v2"));
  EXPECT_THAT(CallsOf([&] { cudaMalloc(&made, 0); }), IsEmpty());
  std::size_t pitch = 0;
  EXPECT_THAT(CallsOf([&] { cudaMallocPitch(&made, &pitch, 100, 3); }), ElementsAre("cuMemAllocPitch_v2"));
  EXPECT_THAT(CallsOf([&] { cudaFree(made); }), ElementsAre("cuMemFree_v2"));
  EXPECT_THAT(CallsOf([&] { cudaMallocManaged(&made, 100, cudaMemAttachGlobal); }), ElementsAre("cuMemAllocManaged"));
  EXPECT_THAT(CallsOf([&] { cudaFree(made); }), ElementsAre("cuMemFree_v2"));
  EXPECT_THAT(CallsOf([&] { cudaMallocHost(&made, 100); }), ElementsAre("cuMemHostAlloc"));
  EXPECT_THAT(CallsOf([&] { cudaFreeHost(made); }), ElementsAre("cuMemFreeHost"));
  EXPECT_THAT(CallsOf([&] { cudaHostAlloc(&made, 100, cudaHostAllocMapped); }), ElementsAre("cuMemHostAlloc"));
  EXPECT_THAT(CallsOf([&] { cudaFreeHost(made); }), ElementsAre("cuMemFreeHost"));
  EXPECT_THAT(CallsOf([&] { cudaMallocAsync(&made, 100, nullptr); }), ElementsAre("cuMemAllocAsync"));
  EXPECT_THAT(CallsOf([&] { cudaFreeAsync(made, nullptr); }), ElementsAre("cuMemFreeAsync"));
}

TEST_F(RuntimeCalls, CopiesAreOneCallByDirection) {
  char host[64] = {};
  const auto copy = [&](void* to, const void* from, cudaMemcpyKind kind) {
    return CallsOf([&] { EXPECT_EQ(cudaMemcpy(to, from, 16, kind), cudaSuccess); });
  };
  EXPECT_THAT(copy(pointer_, host, cudaMemcpyHostToDevice), ElementsAre("cuMemcpyHtoD_v2"));
  EXPECT_THAT(copy(host, pointer_, cudaMemcpyDeviceToHost), ElementsAre("cuMemcpyDtoH_v2"));
  EXPECT_THAT(copy(static_cast<char*>(pointer_) + 64, pointer_, cudaMemcpyDeviceToDevice),
              ElementsAre("cuMemcpyDtoD_v2"));
  EXPECT_THAT(copy(host, pointer_, cudaMemcpyDefault), ElementsAre("cuMemcpy"));
  EXPECT_THAT(CallsOf([&] { cudaMemcpy(host, pointer_, 0, cudaMemcpyDefault); }), IsEmpty());
  EXPECT_THAT(CallsOf([&] { cudaMemcpyAsync(host, pointer_, 8, cudaMemcpyDeviceToHost, nullptr); }),
              ElementsAre("cuMemcpyDtoHAsync_v2"));
  EXPECT_THAT(CallsOf([&] { cudaMemcpy2D(host, 16, pointer_, 32, 8, 2, cudaMemcpyDeviceToHost); }),
              ElementsAre("cuMemcpy2DUnaligned_v2"));
  EXPECT_THAT(CallsOf([&] { cudaMemset(pointer_, 1, 8); }), ElementsAre("cuMemsetD8_v2"));
  EXPECT_THAT(CallsOf([&] { cudaMemsetAsync(pointer_, 1, 8, nullptr); }), ElementsAre("cuMemsetD8Async"));
}

TEST_F(RuntimeCalls, PropertiesAndVersionsAreAnsweredFromTheCache) {
  EXPECT_THAT(CallsOf([] {
                cudaDeviceProp properties;
                int value = 0;
                EXPECT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
                EXPECT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 0), cudaSuccess);
                EXPECT_EQ(cudaRuntimeGetVersion(&value), cudaSuccess);
                EXPECT_EQ(cudaDriverGetVersion(&value), cudaSuccess);
                EXPECT_EQ(cudaGetDevice(&value), cudaSuccess);
                EXPECT_EQ(cudaGetLastError(), cudaSuccess);
              }),
              IsEmpty());
}

TEST_F(RuntimeCalls, StreamsEventsAndQueriesAreOneCall) {
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  cudaPointerAttributes attributes = {};
  EXPECT_THAT(CallsOf([&] { cudaStreamCreate(&stream); }), ElementsAre("cuStreamCreate"));
  EXPECT_THAT(CallsOf([&] { cudaEventCreateWithFlags(&event, cudaEventDisableTiming); }), ElementsAre("cuEventCreate"));
  EXPECT_THAT(CallsOf([&] { cudaEventRecord(event, stream); }), ElementsAre("cuEventRecord"));
  EXPECT_THAT(CallsOf([&] { cudaStreamWaitEvent(stream, event, 0); }), ElementsAre("cuStreamWaitEvent"));
  EXPECT_THAT(CallsOf([&] { cudaEventSynchronize(event); }), ElementsAre("cuEventSynchronize"));
  EXPECT_THAT(CallsOf([&] { cudaStreamSynchronize(stream); }), ElementsAre("cuStreamSynchronize"));
  EXPECT_THAT(CallsOf([&] { cudaStreamDestroy(stream); }), ElementsAre("cuStreamDestroy_v2"));
  EXPECT_THAT(CallsOf([&] { cudaEventDestroy(event); }), ElementsAre("cuEventDestroy_v2"));
  EXPECT_THAT(CallsOf([&] { cudaDeviceSynchronize(); }), ElementsAre("cuCtxSynchronize_v2"));
  EXPECT_THAT(CallsOf([&] { cudaMemGetInfo(&free_bytes, &total); }), ElementsAre("cuMemGetInfo_v2"));
  EXPECT_THAT(CallsOf([&] { cudaPointerGetAttributes(&attributes, pointer_); }), ElementsAre("cuPointerGetAttributes"));
}

TEST_F(RuntimeCalls, FailuresAreOneCallToo) {
  void* made = nullptr;
  EXPECT_THAT(CallsOf([&] { cudaMalloc(&made, std::size_t{1} << 60); }), ElementsAre("cuMemAlloc_v2"));
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
}

}  // namespace
