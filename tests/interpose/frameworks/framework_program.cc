// A process with a stand-in of PyTorch, loaded as Python loads extensions: locally.
//
// usage: framework_program torch-first|driver-first|no-driver|fork LIBC10_CUDA
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string_view>

namespace {

using Usage = void (*)(void*, std::int64_t, std::size_t, std::size_t, int, int);
using SignedUsage = void (*)(void*, std::int64_t, std::int64_t, std::int64_t);
using OutOfMemory = void (*)(std::int64_t, std::size_t, std::size_t);

void InitDriver() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) std::exit(3);
  reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"))(0);
}

void* At(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

void Report(void* torch, bool forks) {
  const auto usage = reinterpret_cast<Usage>(dlsym(torch, "FakeUsage"));
  usage(At(0x10000), 512, 512, 0, 1, 0);
  usage(At(0x10200), 1024, 1536, 0, 1, 0);
  usage(At(0x90000), 4096, 4096, 4096, 0, -1);  // the host's
  usage(At(0x90000), -4096, 0, 0, 0, -1);
  usage(At(0x10000), -512, 1024, 0, 1, 0);
  usage(At(0x20000), 2048, 2048, 0, 1, 3);
  usage(nullptr, 512, 2048, 0, 1, 3);  // no block: nothing to record
  if (const auto older = reinterpret_cast<SignedUsage>(dlsym(torch, "FakeSignedUsage"))) older(At(0x30000), 256, 1280, 0);
  try {
    usage(At(0x40000), 13, 1293, 0, 1, 0);
  } catch (const std::runtime_error& error) {
    std::printf("caught %s\n", error.what());
  }
  reinterpret_cast<OutOfMemory>(dlsym(torch, "FakeOutOfMemory"))(1 << 30, 1293, 4096);
  if (!forks) return;
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    usage(At(0x10200), -1024, 269, 0, 1, 0);
    std::fflush(stdout);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  std::printf("child %d\n", status);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string_view order = argv[1];
  if (order == "driver-first") InitDriver();
  void* torch = dlopen(argv[2], RTLD_LAZY | RTLD_LOCAL);
  if (torch == nullptr) {
    std::printf("%s\n", dlerror());
    return 4;
  }
  if (order != "driver-first" && order != "no-driver") InitDriver();
  Report(torch, order == "fork");
  return 0;
}
