// The part of NVML that is simulated, opened by name as frameworks do.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

namespace {

class Nvml : public testing::Test {
 protected:
  void SetUp() override {
    library_ = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    ASSERT_NE(library_, nullptr) << dlerror();
    ASSERT_EQ(Call<int()>("nvmlInit_v2")(), 0);
  }
  void TearDown() override { EXPECT_EQ(Call<int()>("nvmlShutdown")(), 0); }

  template <typename Function>
  Function* Call(const char* name) {
    void* found = dlsym(library_, name);
    EXPECT_NE(found, nullptr) << name;
    return reinterpret_cast<Function*>(found);
  }
  void* Device() {
    char bus_id[32];
    EXPECT_EQ(cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, 0), cudaSuccess);
    void* device = nullptr;
    EXPECT_EQ((Call<int(const char*, void**)>("nvmlDeviceGetHandleByPciBusId_v2")(bus_id, &device)), 0);
    return device;
  }

  void* library_ = nullptr;
};

TEST_F(Nvml, DeviceIsTheRuntimes) {
  cudaDeviceProp properties;
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  char name[96];
  EXPECT_EQ((Call<int(void*, char*, unsigned)>("nvmlDeviceGetName")(Device(), name, sizeof name)), 0);
  EXPECT_STREQ(name, properties.name);
  char uuid[96];
  EXPECT_EQ((Call<int(void*, char*, unsigned)>("nvmlDeviceGetUUID")(Device(), uuid, sizeof uuid)), 0);
  EXPECT_EQ(std::strlen(uuid), 40U);
  EXPECT_EQ((Call<int(void*, char*, unsigned)>("nvmlDeviceGetName")(Device(), name, 3)), 7);
  void* nobody = nullptr;
  EXPECT_EQ((Call<int(const char*, void**)>("nvmlDeviceGetHandleByPciBusId_v2")("0000:ff:1f.0", &nobody)), 6);
}

TEST_F(Nvml, MemoryAndProcessAreThisOnes) {
  void* pointer = nullptr;
  ASSERT_EQ(cudaMalloc(&pointer, 256 << 20), cudaSuccess);
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free_bytes, &total), cudaSuccess);
  unsigned long long memory[3] = {};
  EXPECT_EQ((Call<int(void*, unsigned long long*)>("nvmlDeviceGetMemoryInfo")(Device(), memory)), 0);
  EXPECT_EQ(memory[0], total);
  EXPECT_EQ(memory[1], free_bytes);
  EXPECT_EQ(memory[2], total - free_bytes);
  struct {
    unsigned int pid;
    unsigned long long used;
    unsigned int instances[2];
  } process = {};
  unsigned int count = 0;
  const auto processes = Call<int(void*, unsigned*, void*)>("nvmlDeviceGetComputeRunningProcesses_v3");
  EXPECT_EQ(processes(Device(), &count, &process), 7) << "there is no room for it";
  EXPECT_EQ(count, 1U);
  EXPECT_EQ(processes(Device(), &count, &process), 0);
  EXPECT_EQ(process.pid, static_cast<unsigned int>(getpid()));
  EXPECT_EQ(process.used, total - free_bytes);
  EXPECT_EQ(cudaFree(pointer), cudaSuccess);
}

TEST_F(Nvml, TheRestIsNotSupported) {
  EXPECT_EQ((Call<int(void*, unsigned*)>("nvmlDeviceGetPowerUsage")(Device(), nullptr)), 3);
}

}  // namespace
