// The numbers that the allocator passes around, as the driver knows them, without depending on cuda.h.
#ifndef CUHEAP_ALLOCATOR_TYPES_H_
#define CUHEAP_ALLOCATOR_TYPES_H_

#include <cstdint>

namespace cuheap {

using DeviceAddress = std::uint64_t;  // a CUdeviceptr; 0 is none
using ContextId = std::uint64_t;      // a CUcontext handle; 0 is none
using SyncTicket = std::uint64_t;     // drawn when a context-wide synchronisation begins; grows, never repeats

}  // namespace cuheap

#endif  // CUHEAP_ALLOCATOR_TYPES_H_
