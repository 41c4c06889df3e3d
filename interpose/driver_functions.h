// The driver's functions that the library calls for its own sake, as plain pointers: tests put fakes here.
#ifndef CUHEAP_INTERPOSE_DRIVER_FUNCTIONS_H_
#define CUHEAP_INTERPOSE_DRIVER_FUNCTIONS_H_

#include "interpose/cuda_api.h"

namespace cuheap {

// Without one of these nothing stream-ordered is served.
#define CUHEAP_STREAM_ORDERED_FUNCTIONS(FUNCTION) \
  FUNCTION(cuStreamGetId)                         \
  FUNCTION(cuStreamGetCtx)                        \
  FUNCTION(cuStreamGetFlags)                      \
  FUNCTION(cuStreamQuery)                         \
  FUNCTION(cuEventCreate)                         \
  FUNCTION(cuEventRecord)                         \
  FUNCTION(cuEventQuery)                          \
  FUNCTION(cuEventDestroy_v2)                     \
  FUNCTION(cuMemAddressReserve)                   \
  FUNCTION(cuMemAddressFree)                      \
  FUNCTION(cuMemCreate)                           \
  FUNCTION(cuMemRelease)                          \
  FUNCTION(cuMemMap)                              \
  FUNCTION(cuMemUnmap)                            \
  FUNCTION(cuMemSetAccess)                        \
  FUNCTION(cuMemGetAllocationGranularity)         \
  FUNCTION(cuDeviceGetMemPool)                    \
  FUNCTION(cuDeviceGetDefaultMemPool)

// Without one of these CUHEAP_FILL does nothing.
#define CUHEAP_FILL_FUNCTIONS(FUNCTION) \
  FUNCTION(cuStreamCreate)              \
  FUNCTION(cuStreamSynchronize)         \
  FUNCTION(cuMemsetD8Async_ptsz)

// REQUIRED: without one of these nothing is served. OPTIONAL: a driver may lack it, and what it gives is left out.
#define CUHEAP_DRIVER_FUNCTIONS(REQUIRED, OPTIONAL) \
  REQUIRED(cuCtxGetCurrent)                         \
  REQUIRED(cuCtxGetDevice)                          \
  REQUIRED(cuCtxSetCurrent)                         \
  REQUIRED(cuCtxPushCurrent_v2)                     \
  REQUIRED(cuCtxPopCurrent_v2)                      \
  REQUIRED(cuCtxSynchronize)                        \
  REQUIRED(cuMemAlloc_v2)                           \
  REQUIRED(cuMemFree_v2)                            \
  OPTIONAL(cuStreamIsCapturing)                     \
  OPTIONAL(cuUserObjectCreate)                      \
  OPTIONAL(cuGraphRetainUserObject)                 \
  OPTIONAL(cuThreadExchangeStreamCaptureMode)       \
  OPTIONAL(cuDevicePrimaryCtxGetState)              \
  OPTIONAL(cuDeviceGetName)                         \
  OPTIONAL(cuDeviceTotalMem_v2)                     \
  OPTIONAL(cuDeviceGetAttribute)                    \
  OPTIONAL(cuDeviceGetUuid_v2)                      \
  OPTIONAL(cuMemGetInfo_v2)                         \
  OPTIONAL(cuMemGetAddressRange_v2)                 \
  OPTIONAL(cuPointerGetAttribute)                   \
  CUHEAP_FILL_FUNCTIONS(OPTIONAL)                   \
  CUHEAP_STREAM_ORDERED_FUNCTIONS(OPTIONAL)

struct DriverFunctions {
#define CUHEAP_FIELD(name) decltype(&::name) name = nullptr;
  CUHEAP_DRIVER_FUNCTIONS(CUHEAP_FIELD, CUHEAP_FIELD)
#undef CUHEAP_FIELD

#define CUHEAP_HAS(name) &&this->name != nullptr
  bool HasStreamOrdered() const { return true CUHEAP_STREAM_ORDERED_FUNCTIONS(CUHEAP_HAS); }
  bool HasFill() const { return true CUHEAP_FILL_FUNCTIONS(CUHEAP_HAS); }
#undef CUHEAP_HAS

  // lookup(name) gives the address or null; missing(name) hears of each required one that is not there. True if none.
  template <class Lookup, class Missing>
  bool Fill(Lookup&& lookup, Missing&& missing) {
    bool complete = true;
#define CUHEAP_FILL_OPTIONAL(name) this->name = reinterpret_cast<decltype(&::name)>(lookup(#name));
#define CUHEAP_FILL_REQUIRED(name) \
  CUHEAP_FILL_OPTIONAL(name)       \
  if (this->name == nullptr) {     \
    complete = false;              \
    missing(#name);                \
  }
    CUHEAP_DRIVER_FUNCTIONS(CUHEAP_FILL_REQUIRED, CUHEAP_FILL_OPTIONAL)
#undef CUHEAP_FILL_REQUIRED
#undef CUHEAP_FILL_OPTIONAL
    return complete;
  }
};

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_DRIVER_FUNCTIONS_H_
