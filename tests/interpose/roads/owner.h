#ifndef CUHEAP_TESTS_INTERPOSE_ROADS_OWNER_H_
#define CUHEAP_TESTS_INTERPOSE_ROADS_OWNER_H_

#include <dlfcn.h>

#include <cstring>

// Who an address belongs to: the preload library, the driver, this program, or nobody.
inline const char* Owner(const void* address) {
  Dl_info info{};
  if (address == nullptr) return "missing";
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return "unknown";
  if (std::strstr(info.dli_fname, "libcuheap_preload") != nullptr) return "preload";
  if (std::strstr(info.dli_fname, "libcuda.so") != nullptr) return "driver";
  return "other";
}

#endif  // CUHEAP_TESTS_INTERPOSE_ROADS_OWNER_H_
