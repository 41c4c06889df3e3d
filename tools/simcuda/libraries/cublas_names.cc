// A weak definition of every documented name that no other file defines. A function of the current interface takes a
// handle first and computes: it becomes a no-op on the handle's stream. Functions of the interface from before CUDA 4
// and of cuBLASXt answer "not supported". Other arguments are ignored, which C calling conventions allow.
#include "tools/simcuda/libraries/cublas_handle.h"

#define NAME(name)                                                                                          \
  extern "C" __attribute__((weak, visibility("default"))) int name(const cuheap::simblas::Handle* handle) { \
    return cuheap::simblas::EnqueueWork(handle);                                                            \
  }
#include "tools/simcuda/libraries/cublas_names.inc"
#undef NAME

#define NAME(name) \
  extern "C" __attribute__((weak, visibility("default"))) int name() { return cuheap::simblas::NotSimulated(#name); }
#include "tools/simcuda/libraries/cublas_legacy_names.inc"
#undef NAME
