// A program that is linked with the driver: its names are bound by the loader. Scenes by the first argument.
#include <cuda.h>
#include <dlfcn.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "tests/interpose/roads/ten_blocks.h"

namespace {

DriverCalls LinkedCalls() {
  DriverCalls calls;
#define ROAD_LINKED(field, name, symbol) calls.field = &::name;
  ROAD_FUNCTIONS(ROAD_LINKED)
#undef ROAD_LINKED
  return calls;
}

bool Begin() {
  CUdevice device = -1;
  CUcontext context = nullptr;
  return cuInit(0) == CUDA_SUCCESS && cuDeviceGet(&device, 0) == CUDA_SUCCESS &&
         cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS && cuCtxSetCurrent(context) == CUDA_SUCCESS;
}

// A text of dlerror that waits to be read is there after the driver's first calls.
int PendingError() {
  if (dlopen("libcuheap_no_such_library.so", RTLD_NOW) != nullptr) return 3;
  const int status = UseDriver(LinkedCalls());
  const char* text = dlerror();
  std::printf("dlerror %s\n", text != nullptr ? text : "(none)");
  return status;
}

// Outputs that the caller does not want: the driver's business, whatever it answers.
int MissingOutputs() {
  if (!Begin()) return 3;
  std::size_t free_bytes = 0, total = 0;
  CUdeviceptr block = 0, base = 0;
  std::size_t bytes = 0;
  std::printf("both missing %d\n", cuMemGetInfo(nullptr, nullptr));
  std::printf("free missing %d", cuMemGetInfo(nullptr, &total));
  std::printf(" %s\n", total != 0 ? "total" : "none");
  std::printf("total missing %d", cuMemGetInfo(&free_bytes, nullptr));
  std::printf(" %s\n", free_bytes != 0 ? "free" : "none");
  // Memory that the pool keeps for itself is counted, and nothing wraps around.
  std::vector<CUdeviceptr> blocks(64);
  for (CUdeviceptr& one : blocks) std::printf("%d", cuMemAlloc(&one, std::size_t{8} << 20));
  for (const CUdeviceptr one : blocks) std::printf("%d", cuMemFree(one));
  std::printf("\ninformation %d", cuMemGetInfo(&free_bytes, &total));
  std::printf(" %s\n", free_bytes <= total ? "in bounds" : "wrapped");
  std::printf("allocation without a place %d\n", cuMemAlloc(nullptr, 64));
  std::printf("allocate %d\n", cuMemAlloc(&block, 4096));
  std::printf("range: both missing %d", cuMemGetAddressRange(nullptr, nullptr, block));
  std::printf(", base missing %d", cuMemGetAddressRange(nullptr, &bytes, block));
  std::printf(" %zu", bytes);
  std::printf(", size missing %d", cuMemGetAddressRange(&base, nullptr, block));
  std::printf(" %s\n", base == block ? "itself" : "another");
  std::printf("free %d\n", cuMemFree(block));
  return 0;
}

// Frees of what the library never saw, or sees no more: the driver's answer, and nothing else happens.
int ForeignFrees() {
  if (!Begin()) return 3;
  CUdeviceptr block = 0, ordered = 0;
  int local = 0;
  std::printf("allocate %d\n", cuMemAlloc(&block, std::size_t{1} << 20));
  std::printf("inside %d\n", cuMemFree(block + 256));
  std::printf("once %d\n", cuMemFree(block));
  std::printf("twice %d\n", cuMemFree(block));
  std::printf("null %d\n", cuMemFree(0));
  std::printf("host %d\n", cuMemFree(reinterpret_cast<CUdeviceptr>(&local)));
  std::printf("made up %d\n", cuMemFree(CUdeviceptr{0x7f0012345600}));
  std::printf("stream-ordered %d\n", cuMemAllocAsync(&ordered, 4096, nullptr));
  std::printf("freed plainly %d\n", cuMemFree(ordered));
  std::printf("pinned %d\n", cuMemFreeHost(&local));
  return 0;
}

// A child that a program under us starts: with its environment, or with one that has another variable and no other
// library folder than it needs; `bare`: without LD_PRELOAD, and the child takes its time.
int Child(const char* self, bool changed, bool bare = false) {
  char word[] = "linked";
  char slow[] = "slow";
  char* arguments[] = {const_cast<char*>(self), bare ? slow : word, nullptr};
  std::vector<std::string> kept;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const bool ours = std::strncmp(*entry, "LD_", 3) == 0 || std::strncmp(*entry, "CUHEAP_", 7) == 0 ||
                      std::strncmp(*entry, "SIMCUDA_", 8) == 0;
    if (bare && std::strncmp(*entry, "LD_PRELOAD=", 11) == 0) continue;
    if (!changed || ours) kept.emplace_back(*entry);
  }
  if (changed) kept.emplace_back("CUHEAP_TEST_CHANGED=1");
  std::vector<char*> environment;
  environment.reserve(kept.size() + 1);
  for (std::string& entry : kept) environment.push_back(entry.data());
  environment.push_back(nullptr);
  std::fflush(stdout);
  pid_t child = 0;
  if (changed) {
    child = fork();
    if (child == 0) {
      execve(self, arguments, environment.data());
      _exit(4);
    }
  } else if (posix_spawn(&child, self, nullptr, nullptr, arguments, environment.data()) != 0) {
    return 3;
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) return 3;
  std::printf("child %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string scene = argc > 1 ? argv[1] : "linked";
  if (scene == "linked") return UseDriver(LinkedCalls());
  if (scene == "dlerror") return PendingError();
  if (scene == "missing-outputs") return MissingOutputs();
  if (scene == "foreign-frees") return ForeignFrees();
  if (scene == "child") return Child(argv[0], false);
  if (scene == "slow") return UseDriver(LinkedCalls()) + usleep(1'500'000);
  if (scene == "bare-child") return Child(argv[0], true, true);
  if (scene == "child-environment") return Child(argv[0], true);
  return 2;
}
