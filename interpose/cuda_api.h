// cuda.h with every exported name declared as it is exported: all versions and per-thread-stream variants, and no macro
// that renames cuMemAlloc to cuMemAlloc_v2. Only for code that deals in entry points; nothing here may be called by
// name.
#ifndef CUHEAP_INTERPOSE_CUDA_API_H_
#define CUHEAP_INTERPOSE_CUDA_API_H_

#if defined(__cuda_cuda_h__) && !defined(CUHEAP_CUDA_API_INCLUDED)
#error "cuda.h was included before interpose/cuda_api.h: the exported names would not all be declared"
#endif
#define CUHEAP_CUDA_API_INCLUDED
#define __CUDA_API_VERSION_INTERNAL  // the toolkit's own switch for this
#include <cuda.h>

#endif  // CUHEAP_INTERPOSE_CUDA_API_H_
