// A weak definition of every documented name: what no other file defines answers cudaErrorNotSupported and is named on
// stderr once. The declarations here have no parameters on purpose (and so can't see the real header): whatever the
// caller passes is ignored, which C calling conventions allow.
namespace cuheap::simcudart {
int NotSimulatedName(const char* name);
}  // namespace cuheap::simcudart

#define NAME(name)                                                     \
  extern "C" __attribute__((weak, visibility("default"))) int name() { \
    return cuheap::simcudart::NotSimulatedName(#name);                 \
  }
#if SIMCUDART_MAJOR >= 13
#include "tools/simcuda/runtime/names_13.inc"
#else
#include "tools/simcuda/runtime/names_12.inc"
#endif
