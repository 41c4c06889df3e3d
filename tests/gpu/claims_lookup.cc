// cuGetProcAddress answers with the addresses of the driver's exports: what the roads in rest on.
#include <dlfcn.h>

#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "tests/gpu/claims.h"

namespace claims {
namespace {

constexpr const char* kHooked[] = {
#define HOOK(name, version, effect) #name,
#include "interpose/hooked_functions.inc"
#undef HOOK
};

// cuMemAlloc of cuMemAlloc_v2, cuMemsetD8Async of cuMemsetD8Async_ptsz: what cuGetProcAddress is asked for.
std::string Asked(std::string name) {
  for (const char* suffix : {"_ptsz", "_ptds", "_v2", "_v3", "_v4"}) {
    const std::size_t at = name.rfind(suffix);
    if (at != std::string::npos && at + std::string(suffix).size() == name.size()) name.resize(at);
  }
  return name;
}

const Claim kExports("lookups_give_exports", [] {
  StartDevice();
  int version = 0;
  Must("cuDriverGetVersion", cuDriverGetVersion(&version));
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  Holds(driver != nullptr, "libcuda.so.1 is not loaded under this name");
  std::set<std::string> names;
  std::set<void*> exported;
  for (const char* name : kHooked) {
    names.insert(Asked(name));
    for (const char* suffix : {"", "_v2", "_v3", "_v4", "_ptsz", "_ptds", "_v2_ptsz", "_v2_ptds", "_v3_ptsz"}) {
      if (void* found = dlsym(driver, (Asked(name) + suffix).c_str())) exported.insert(found);
    }
  }
  int answers = 0, elsewhere = 0;
  std::string examples;
  for (const std::string& name : names) {
    for (const int of : {version, 12000, 11040, 10020, 7050, 4000}) {
      for (const unsigned long long flags : {CU_GET_PROC_ADDRESS_DEFAULT, CU_GET_PROC_ADDRESS_LEGACY_STREAM,
                                             CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM}) {
        void* found = nullptr;
        if (cuGetProcAddress(name.c_str(), &found, of, flags, nullptr) != CUDA_SUCCESS || found == nullptr) continue;
        ++answers;
        if (exported.contains(found)) continue;
        if (++elsewhere <= 5) examples += " " + name + "@" + std::to_string(of);
      }
    }
  }
  Figure("answers for hooked names", answers, "");
  Figure("of them no exports", elsewhere, "");
  Holds(answers > 300 && elsewhere == 0, "answers that are no exports:" + examples);
});

}  // namespace
}  // namespace claims
