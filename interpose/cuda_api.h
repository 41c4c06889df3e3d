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

// Functions of later toolkits than the one that this is built with; their types are older. A driver that lacks them
// never leads to our hooks. Source: cuda.h of CUDA 13.1 and 13.2.
extern "C" {
#if CUDA_VERSION < 13010
CUresult cuMulticastBindMem_v2(CUmemGenericAllocationHandle multicast, CUdevice device, size_t multicast_offset,
                               CUmemGenericAllocationHandle memory, size_t memory_offset, size_t bytes,
                               unsigned long long flags);
CUresult cuMulticastBindAddr_v2(CUmemGenericAllocationHandle multicast, CUdevice device, size_t multicast_offset,
                                CUdeviceptr address, size_t bytes, unsigned long long flags);
#endif
#if CUDA_VERSION < 13020
CUresult cuMemcpyWithAttributesAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUmemcpyAttributes* attributes,
                                     CUstream stream);
CUresult cuMemcpyWithAttributesAsync_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                          CUmemcpyAttributes* attributes, CUstream stream);
CUresult cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP* operation, unsigned long long flags, CUstream stream);
CUresult cuMemcpy3DWithAttributesAsync_ptsz(CUDA_MEMCPY3D_BATCH_OP* operation, unsigned long long flags,
                                            CUstream stream);
#endif
}  // extern "C"

#endif  // CUHEAP_INTERPOSE_CUDA_API_H_
