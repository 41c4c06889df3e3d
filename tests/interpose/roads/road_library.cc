// A library that uses the driver; ROAD_PRIVATE: through look-ups of its own, as one with the runtime linked statically.
#include <dlfcn.h>

#include "tests/interpose/roads/ten_blocks.h"

extern "C" __attribute__((visibility("default"))) int cuheap_test_use_driver() {
#ifdef ROAD_PRIVATE
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) return 4;
  const auto resolve = reinterpret_cast<decltype(&::cuGetProcAddress_v2)>(dlsym(driver, "cuGetProcAddress_v2"));
  if (resolve == nullptr) return 5;
  return UseDriver(FindCalls([&](const char*, const char* symbol) {
    void* found = nullptr;
    resolve(symbol, &found, 12000, 0, nullptr);
    return found;
  }));
#else
  DriverCalls calls;
#define ROAD_LINKED(field, name, symbol) calls.field = &::name;
  ROAD_FUNCTIONS(ROAD_LINKED)
#undef ROAD_LINKED
  return UseDriver(calls);
#endif
}
