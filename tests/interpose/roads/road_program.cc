// The roads that are look-ups; one a run, named by the first argument. Prints one line a look-up: what, result, owner.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "interpose/cuda_api.h"
#include "tests/interpose/roads/owner.h"

namespace {

void* OpenDriver() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) std::printf("no driver: %s\n", dlerror());
  return driver;
}

void Say(const char* road, const char* name, void* found) {
  const char* error = dlerror();
  std::printf("%s %s %s%s\n", road, name, Owner(found), found == nullptr && error == nullptr ? " (no dlerror)" : "");
}

constexpr const char* kNames[] = {"cuInit",        "cuMemAlloc_v2",  "cuMemAlloc",         "cuMemcpyDtoH_v2_ptds",
                                  "cuNoSuchThing", "cuMemHostAlloc", "cuDriverGetVersion", "cuGetProcAddress_v2",
                                  "cudaMalloc",    "cublasCreate_v2"};

int RoadDlsym() {
  void* driver = OpenDriver();
  for (const char* name : kNames) Say("dlsym", name, dlsym(driver, name));
  for (const char* name : kNames) Say("again", name, dlsym(driver, name));
  const auto alloc = reinterpret_cast<decltype(&::cuMemAlloc_v2)>(dlsym(driver, "cuMemAlloc_v2"));
  CUdeviceptr address = 0;
  std::printf("call %d\n", alloc(&address, 64));
  return 0;
}

int RoadDlvsym() {
  void* driver = OpenDriver();
  for (const char* name : kNames) Say("dlvsym", name, dlvsym(driver, name, "FAKE_1"));
  for (const char* name : kNames) Say("wrong", name, dlvsym(driver, name, "NO_SUCH_VERSION"));
  Say("libc", "printf", dlvsym(RTLD_DEFAULT, "printf", "GLIBC_2.2.5"));
  return 0;
}

// The scopes of the loader, with or without a driver.
int RoadScopes(bool global_driver) {
  if (global_driver && dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) == nullptr) return 3;
  for (const char* name : {"cuInit", "cuMemAlloc_v2", "cuNoSuchThing"}) {
    Say("default", name, dlsym(RTLD_DEFAULT, name));
    Say("next", name, dlsym(RTLD_NEXT, name));
    Say("program", name, dlsym(dlopen(nullptr, RTLD_NOW), name));
  }
  return 0;
}

// A driver that is loaded, but not for this caller: RTLD_DEFAULT must not find it.
int RoadLocalDriver() {
  if (OpenDriver() == nullptr) return 3;
  Say("default", "cuInit", dlsym(RTLD_DEFAULT, "cuInit"));
  Say("next", "cuInit", dlsym(RTLD_NEXT, "cuInit"));
  return 0;
}

int RoadProcAddress(const char* resolver_name) {
  void* driver = OpenDriver();
  void* resolver = dlsym(driver, resolver_name);
  const bool with_status = std::strcmp(resolver_name, "cuGetProcAddress_v2") == 0;
  for (const char* name : {"cuInit", "cuMemAlloc", "cuCtxCreate", "cuCtxSynchronize", "cuMemAllocAsync", "cuMemcpyDtoH",
                           "cuStreamBeginCapture", "cuMemAllocManaged", "cuGetProcAddress", "cuNoSuchThing", ""}) {
    for (const int version : {2000, 3020, 6000, 7000, 10000, 10010, 11020, 11030, 11040, 12000, 12050, 13000}) {
      for (const cuuint64_t flags : {0, 1, 2}) {
        void* found = nullptr;
        unsigned status = 77;  // no value of the enum: shows whether it was written
        const CUresult result =
            with_status ? reinterpret_cast<decltype(&::cuGetProcAddress_v2)>(resolver)(
                              name, &found, version, flags, reinterpret_cast<CUdriverProcAddressQueryResult*>(&status))
                        : reinterpret_cast<decltype(&::cuGetProcAddress)>(resolver)(name, &found, version, flags);
        std::printf("%s %d %d: %d %u %s", name, version, static_cast<int>(flags), result, status, Owner(found));
        // Which function it is: the fake's results differ, and those looked up here take at most four words.
        const std::string callable = name;
        if (found != nullptr && callable != "cuGetProcAddress" && callable != "cuInit") {
          const auto call = reinterpret_cast<CUresult (*)(void*, void*, void*, void*, void*)>(found);
          std::printf(" %d", call(nullptr, nullptr, nullptr, nullptr, nullptr));
        }
        std::printf("\n");
      }
    }
  }
  void* self = nullptr;
  reinterpret_cast<decltype(&::cuGetProcAddress)>(dlsym(driver, "cuGetProcAddress"))("cuGetProcAddress", &self, 12000,
                                                                                     0);
  std::printf("self %s\n", Owner(self));
  reinterpret_cast<decltype(&::cuInit)>(dlsym(driver, "cuInit"))(0);  // any call: what was missed is written down
  return 0;
}

// LLVM's OpenMP looks for the next ompt_start_tool in a loop until there is none: a dlsym that hides its caller makes
// it find its own one for ever. Here the library asks, and says what it found.
int RoadNext(const char* library) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) return std::printf("%s\n", dlerror()), 3;
  const auto ask = reinterpret_cast<int (*)()>(dlsym(handle, "cuheap_test_ask_next"));
  std::printf("next found itself %d times\n", ask());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string road = argc > 1 ? argv[1] : "";
  if (road == "dlsym") return RoadDlsym();
  if (road == "dlvsym") return RoadDlvsym();
  if (road == "no-driver") return RoadScopes(false);
  if (road == "global-driver") return RoadScopes(true);
  if (road == "local-driver") return RoadLocalDriver();
  if (road == "resolver") return RoadProcAddress("cuGetProcAddress_v2");
  if (road == "old-resolver") return RoadProcAddress("cuGetProcAddress");
  if (road == "next") return RoadNext(argv[2]);
  return 2;
}
