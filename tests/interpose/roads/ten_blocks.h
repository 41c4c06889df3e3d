// What the program of every road does once it has reached the driver: ten blocks of 1 MiB that are never freed, one
// that is, and a word that goes to the device and comes back. Prints results, no addresses.
#ifndef CUHEAP_TESTS_INTERPOSE_ROADS_TEN_BLOCKS_H_
#define CUHEAP_TESTS_INTERPOSE_ROADS_TEN_BLOCKS_H_

#include <cuda.h>

// use(field, exported name, symbol of cuGetProcAddress)
#define ROAD_FUNCTIONS(use)                                                                               \
  use(init, cuInit, "cuInit") use(device, cuDeviceGet, "cuDeviceGet")                                     \
      use(retain, cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain")                                   \
          use(set_current, cuCtxSetCurrent, "cuCtxSetCurrent") use(allocate, cuMemAlloc_v2, "cuMemAlloc") \
              use(free, cuMemFree_v2, "cuMemFree") use(information, cuMemGetInfo_v2, "cuMemGetInfo")      \
                  use(to_device, cuMemcpyHtoD_v2, "cuMemcpyHtoD") use(to_host, cuMemcpyDtoH_v2, "cuMemcpyDtoH")

struct DriverCalls {
#define ROAD_FIELD(field, name, symbol) decltype(&::name) field = nullptr;
  ROAD_FUNCTIONS(ROAD_FIELD)
#undef ROAD_FIELD
};

// find(exported name, symbol) gives the address or null.
template <class Find>
DriverCalls FindCalls(Find&& find) {
  DriverCalls calls;
#define ROAD_FIND(field, name, symbol) calls.field = reinterpret_cast<decltype(&::name)>(find(#name, symbol));
  ROAD_FUNCTIONS(ROAD_FIND)
#undef ROAD_FIND
  return calls;
}

// The exit status: 0, or 3 with a line that says which function is missing. The device is made ready first.
int UseDriver(const DriverCalls& driver);
// The same from cuMemAlloc on: there is a context already.
int UseContext(const DriverCalls& driver);

#endif  // CUHEAP_TESTS_INTERPOSE_ROADS_TEN_BLOCKS_H_
