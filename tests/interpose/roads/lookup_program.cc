// The roads that are look-ups by a program which is not linked with the driver: one a run, named by the first argument.
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "tests/interpose/roads/ten_blocks.h"

namespace {

// Of CUDA 11.3; cuda.h has a macro of that name for the newer one.
using OldResolver = CUresult (*)(const char* symbol, void** function, int version, cuuint64_t flags);

void* Open(const char* file, int flags) {
  void* driver = dlopen(file, flags);
  if (driver == nullptr) {
    std::printf("no driver: %s\n", dlerror());
    std::exit(3);
  }
  return driver;
}

int ByHandle(const char* file) {
  void* driver = Open(file, RTLD_NOW | RTLD_LOCAL);
  return UseDriver(FindCalls([&](const char* name, const char*) { return dlsym(driver, name); }));
}

int ByVersion() {
  // The driver's names have no versions, so that this finds nothing (roads_test.py has a driver whose names have some);
  // programs that look for a version first go on without. The loader's own names have: the unversioned look-up is one
  // that was looked up so.
  void* driver = Open("libcuda.so.1", RTLD_NOW);
  const auto look_up = reinterpret_cast<void* (*)(void*, const char*)>(dlvsym(RTLD_DEFAULT, "dlsym", "GLIBC_2.2.5"));
  if (look_up == nullptr) return 3;
  return UseDriver(FindCalls([&](const char* name, const char*) {
    void* found = dlvsym(driver, name, "VERSION_1");
    std::printf("%s %s\n", name, found != nullptr ? "with a version" : "without versions");
    return found != nullptr ? found : look_up(driver, name);
  }));
}

// The look-up is itself looked up, in the library that has it.
int ByLookedUpLookup() {
  void* library = Open("libdl.so.2", RTLD_NOW);
  const auto look_up = reinterpret_cast<void* (*)(void*, const char*)>(dlsym(library, "dlsym"));
  void* driver = Open("libcuda.so.1", RTLD_NOW);
  if (look_up == nullptr) return 3;
  return UseDriver(FindCalls([&](const char* name, const char*) { return look_up(driver, name); }));
}

int ByScope(void* scope) {
  Open("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  return UseDriver(FindCalls([&](const char* name, const char*) { return dlsym(scope, name); }));
}

// The driver by its name, then another file of it.
int BothDrivers(const char* other) {
  const int status = ByHandle("libcuda.so.1");
  return status != 0 ? status : ByHandle(other);
}

// What a runtime that is linked statically does: one look-up in the driver, and all else through what it gave. The
// table of each kind of default stream and of several versions; the last one is used.
int ByResolver(const char* exported) {
  void* driver = Open("libcuda.so.1", RTLD_NOW);
  const bool with_status = std::strcmp(exported, "cuGetProcAddress_v2") == 0;
  void* resolver = dlsym(driver, exported);
  if (resolver == nullptr) return 3;
  const auto ask = [&](const char* symbol, int version, cuuint64_t flags, CUdriverProcAddressQueryResult* status) {
    void* found = nullptr;
    const CUresult result = with_status ? reinterpret_cast<decltype(&::cuGetProcAddress_v2)>(resolver)(
                                              symbol, &found, version, flags, status)
                                        : reinterpret_cast<OldResolver>(resolver)(symbol, &found, version, flags);
    if (result != CUDA_SUCCESS && found != nullptr) std::printf("%s: a failure with an answer\n", symbol);
    return found;
  };
  int status = 0;
  for (const int version : {11030, 12000, 12080, 13000}) {
    for (const cuuint64_t flags : {0, 1, 2}) {
      std::printf("version %d, flags %d\n", version, static_cast<int>(flags));
      const DriverCalls calls = FindCalls([&](const char*, const char* symbol) {
        CUdriverProcAddressQueryResult answer = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
        void* found = ask(symbol, version, flags, &answer);
        std::printf("%s %s %d\n", symbol, found != nullptr ? "found" : "missing", with_status ? answer : 0);
        return found;
      });
      // Once with the legacy stream, once with each thread's own: ten blocks in all, since one set is taken twice.
      if (version == 13000 && flags == 2) status = UseDriver(calls);
    }
  }
  return status;
}

// The first thing that the process asks of the driver, before cuInit: the resolver for itself, for functions and for
// names that there are not (what runtimes since 11.3 do).
int FirstCall() {
  void* driver = Open("libcuda.so.1", RTLD_NOW);
  const auto first = reinterpret_cast<decltype(&::cuGetProcAddress_v2)>(dlsym(driver, "cuGetProcAddress_v2"));
  if (first == nullptr) return 3;
  for (const int version : {11030, 12000, 13000}) {
    for (const char* name : {"cuGetProcAddress", "cuMemAlloc", "cuMemFree", "cuMemAllocAsync", "cuMemCreate",
                             "cuNoSuchFunction", "", "cuMemAlloc_v2", "cuda", "cu"}) {
      void* found = nullptr;
      CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
      const CUresult result = first(name, &found, version, CU_GET_PROC_ADDRESS_DEFAULT, &status);
      std::printf("%d \"%s\": %d %d %s\n", version, name, result, status, found != nullptr ? "found" : "null");
    }
  }
  int count = 0;
  std::printf("not initialised %d\n",
              reinterpret_cast<decltype(&::cuDeviceGetCount)>(dlsym(driver, "cuDeviceGetCount"))(&count));
  // 11030 answers with the function of four arguments, 12000 with that of five; both go on to the same driver.
  void* old_resolver = nullptr;
  void* new_resolver = nullptr;
  if (first("cuGetProcAddress", &old_resolver, 11030, 0, nullptr) != CUDA_SUCCESS) return 3;
  if (first("cuGetProcAddress", &new_resolver, 12000, 0, nullptr) != CUDA_SUCCESS) return 3;
  std::printf("two resolvers %s\n", old_resolver != new_resolver ? "differ" : "are one");
  return UseDriver(FindCalls([&](const char*, const char* symbol) {
    void* found = nullptr;
    reinterpret_cast<OldResolver>(old_resolver)(symbol, &found, 12000, 0);
    void* again = nullptr;
    reinterpret_cast<decltype(&::cuGetProcAddress_v2)>(new_resolver)(symbol, &again, 12000, 0, nullptr);
    if (found != again) std::printf("%s: two answers\n", symbol);
    return found;
  }));
}

// Two threads ask for one name at once, twice each: nobody's look-up is taken for the other's recursion.
int Twice() {
  void* driver = Open("libcuda.so.1", RTLD_NOW);
  void* found[4] = {};
  std::thread other([&] {
    found[0] = dlsym(driver, "cuMemAlloc_v2");
    found[1] = dlsym(driver, "cuMemAlloc_v2");
  });
  found[2] = dlsym(driver, "cuMemAlloc_v2");
  found[3] = dlsym(driver, "cuMemAlloc_v2");
  other.join();
  const bool same = found[0] == found[1] && found[0] == found[2] && found[0] == found[3] && found[0] != nullptr;
  std::printf("four look-ups %s\n", same ? "agree" : "differ");
  return UseDriver(FindCalls([&](const char* name, const char*) { return dlsym(driver, name); }));
}

// A text of dlerror, left by something else between the look-ups and the first call.
int PendingError() {
  void* driver = Open("libcuda.so.1", RTLD_NOW);
  const DriverCalls calls = FindCalls([&](const char* name, const char*) { return dlsym(driver, name); });
  if (dlopen("libcuheap_no_such_library.so", RTLD_NOW) != nullptr) return 3;
  const int status = UseDriver(calls);
  const char* text = dlerror();
  std::printf("dlerror %s\n", text != nullptr ? text : "(none)");
  return status;
}

// A library that was loaded, asked and left alone: the driver is still not initialised, and nothing was recorded.
int LoadOnly() {
  void* driver = Open("libcuda.so.1", RTLD_NOW);
  int count = -1;
  const auto get_count = reinterpret_cast<decltype(&::cuDeviceGetCount)>(dlsym(driver, "cuDeviceGetCount"));
  for (const char* name : {"cuInit", "cuMemAlloc_v2", "cuMemAllocAsync"}) {
    std::printf("%s %s\n", name, dlsym(driver, name) != nullptr ? "found" : "missing");
  }
  std::printf("count %d\n", get_count(&count));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string road = argc > 1 ? argv[1] : "";
  if (road == "dlsym") return ByHandle("libcuda.so.1");
  if (road == "absolute-path") return ByHandle(argv[2]);
  if (road == "both-drivers") return BothDrivers(argv[2]);
  if (road == "dlvsym") return ByVersion();
  if (road == "looked-up-lookup") return ByLookedUpLookup();
  if (road == "rtld-next") return ByScope(RTLD_NEXT);
  if (road == "rtld-default") return ByScope(RTLD_DEFAULT);
  if (road == "resolver") return ByResolver("cuGetProcAddress_v2");
  if (road == "old-resolver") return ByResolver("cuGetProcAddress");
  if (road == "first-call") return FirstCall();
  if (road == "dlerror") return PendingError();
  if (road == "twice") return Twice();
  if (road == "load-only") return LoadOnly();
  return 2;
}
