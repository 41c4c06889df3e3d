// The numbers that the allocator passes around, as the driver knows them, without depending on cuda.h.
#ifndef CUHEAP_ALLOCATOR_TYPES_H_
#define CUHEAP_ALLOCATOR_TYPES_H_

#include <cstddef>
#include <cstdint>

namespace cuheap {

using DeviceAddress = std::uint64_t;  // a CUdeviceptr; 0 is none
using ContextId = std::uint64_t;      // a CUcontext handle; 0 is none
using SyncTicket = std::uint64_t;     // drawn when a context-wide synchronisation begins; grows, never repeats

// What the driver charges a device for one allocation: whole pages of 2 MiB once it is over 1 MiB. Smaller ones share
// pages, so that giving one back may or may not free anything. Source: measured footprints in public reports, and the
// minimum granularity of cuMemGetAllocationGranularity; docs/unverified.md.
constexpr std::size_t ChargedBytes(std::size_t bytes) {
  constexpr std::size_t kPage = std::size_t{2} << 20;
  return bytes <= kPage / 2 ? bytes : (bytes + kPage - 1) / kPage * kPage;
}

}  // namespace cuheap

#endif  // CUHEAP_ALLOCATOR_TYPES_H_
