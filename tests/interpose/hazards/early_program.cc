// A program whose own constructor, before main, waits for a thread that looks the driver up and calls it.
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <thread>

namespace {

int g_result = -1;

[[gnu::constructor]] void WaitForLookUp() {
  std::thread([] {
    void* driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver == nullptr) return;
    const auto init = reinterpret_cast<CUresult (*)(unsigned)>(dlsym(driver, "cuInit"));
    const auto count = reinterpret_cast<CUresult (*)(int*)>(dlsym(driver, "cuDeviceGetCount"));
    int devices = 0;
    if (init == nullptr || count == nullptr) return;
    g_result = static_cast<int>(count(&devices)) * 100 + static_cast<int>(init(0)) * 10;
    g_result += static_cast<int>(count(&devices));
  }).join();
}

}  // namespace

int main() {
  std::printf("before initialisation 3, then 0, then 0: %d\n", g_result);
  return 0;
}
