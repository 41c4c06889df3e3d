// cuGetProcAddress and cuGetProcAddress_v2: the driver resolves name, version and flags; what it answers is replaced by
// address. So no rule of the driver's versions and variants is repeated here, and none can be got wrong.
#ifndef CUHEAP_INTERPOSE_RESOLVE_H_
#define CUHEAP_INTERPOSE_RESOLVE_H_

#include "interpose/cuda_api.h"

namespace cuheap {

// What the program gets for `symbol` when the driver answered `address`.
void* SubstituteResolved(const char* symbol, void* address);

template <class Real, class... Rest>
CUresult ResolveThrough(Real real, const char* symbol, void** function, int version, cuuint64_t flags, Rest... rest) {
  const CUresult result = real(symbol, function, version, flags, rest...);
  if (result == CUDA_SUCCESS && function != nullptr && *function != nullptr) {
    *function = SubstituteResolved(symbol, *function);
  }
  return result;
}

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_RESOLVE_H_
