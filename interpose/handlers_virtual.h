// Handlers of virtual memory management: physical memory by its handle, mappings, access.
//
// Note [Our own mappings]
// Blocks of the stream-ordered pool lie in memory that we mapped ourselves. Natively they are memory of the driver's
// pools, which these functions refuse: so must they, or a call that is an error without us takes the pages from under
// the blocks of the whole process. What the driver says of an address, or a handle, that it never gave is asked of the
// driver. This also holds for addresses and handles that the program had, gave back, and still uses: ours may be new
// ones at the same place.
// Source: CUDA Driver API, Virtual Memory Management.
#ifndef CUHEAP_INTERPOSE_HANDLERS_VIRTUAL_H_
#define CUHEAP_INTERPOSE_HANDLERS_VIRTUAL_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "interpose/handlers.h"
#include "interpose/handlers_memory.h"

namespace cuheap {

inline bool TouchesOurs(Router& router, CUdeviceptr address, std::size_t bytes) {
  return router.streams() != nullptr && router.streams()->memory().HasReserved(address, bytes);
}
inline bool OurHandle(Router& router, CUmemGenericAllocationHandle handle) {
  return router.streams() != nullptr && router.streams()->memory().HasCreated(handle);
}

// NCCL probes cuMemCreate with a host location before any context exists: location.id is a device only for that type.
template <>
struct Handler<Effect::kCreatePhysical> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUmemGenericAllocationHandle* out, std::size_t bytes,
                       const CUmemAllocationProp* properties, unsigned long long flags) {
    auto kind = journal::AllocationKind::kVirtual;
    const auto fill = [&](recorder::Allocation& allocation, Outcome made) {
      allocation.address = made ? *out : 0;
      allocation.bytes = bytes;
      if (!made.read()) return;
      if (properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
        allocation.device = static_cast<std::uint16_t>(properties->location.id);
      } else {
        allocation.kind = kind = journal::AllocationKind::kHostVirtual;
      }
    };
    const CUresult result = ForwardAllocation(router, kind, fill, real, out, bytes, properties, flags);
    if (result == CUDA_SUCCESS) router.physical().Created(*out, kind);
    return result;
  }
};

template <>
struct Handler<Effect::kImportPhysical> {
  template <class Real, class Type>
  static CUresult Call(Router& router, HookId, Real real, CUmemGenericAllocationHandle* out, void* os_handle,
                       Type type) {
    // How much it is, nobody tells.
    const auto kind = journal::AllocationKind::kImportedVirtual;
    const CUresult result = router.ForwardWithRescue(real, out, os_handle, type);
    if (result == CUDA_SUCCESS && !router.physical().Imported(*out, kind)) return result;
    recorder::Allocation allocation;
    allocation.kind = kind;
    if (result == CUDA_SUCCESS) allocation.address = *out;
    allocation.stack = recorder::CaptureStack().id;
    router.RecordAllocation(result, allocation, router.Where());
    return result;
  }
};

template <>
struct Handler<Effect::kReleasePhysical> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUmemGenericAllocationHandle handle) {
    if (OurHandle(router, handle)) return router.Forward(real, CUmemGenericAllocationHandle{0});
    const auto ended = router.physical().EndedByRelease(handle);
    const CUresult result =
        ended ? router.ForwardFree(handle, ended->kind, 0, real, handle) : router.Forward(real, handle);
    if (result == CUDA_SUCCESS) router.physical().Released(handle);
    return result;
  }
};

template <>
struct Handler<Effect::kMapPhysical> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUdeviceptr address, std::size_t bytes, std::size_t offset,
                       CUmemGenericAllocationHandle handle, unsigned long long flags) {
    const int local = 0;
    if (TouchesOurs(router, address, bytes)) return router.Forward(real, AsNumber(&local), bytes, offset, handle, flags);
    if (OurHandle(router, handle)) handle = 0;
    const CUresult result = Timed(journal::DriverCall::kMap, [&] {
      return router.ForwardWithRescue(real, address, bytes, offset, handle, flags);
    });
    if (result == CUDA_SUCCESS && router.physical().Mapped(address, bytes, handle)) {
      recorder::Mapped(handle, journal::AllocationKind::kVirtual, address, bytes);
    }
    return result;
  }
};

template <>
struct Handler<Effect::kUnmapPhysical> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUdeviceptr address, std::size_t bytes) {
    const int local = 0;
    if (TouchesOurs(router, address, bytes)) return router.Forward(real, AsNumber(&local), bytes);
    // Mappings end before the memory that they kept alive.
    const std::vector<PhysicalBook::Mapping> mappings = router.physical().MappingsIn(address, bytes);
    for (const PhysicalBook::Mapping& mapping : mappings) {
      recorder::Unmapping(mapping.handle, journal::AllocationKind::kVirtual, mapping.address, mapping.bytes);
    }
    std::vector<recorder::FreeToken> tokens;
    for (const PhysicalBook::Ended& ended : router.physical().EndedByUnmap(address, bytes)) {
      tokens.push_back(router.Freeing(ended.handle, 0, ended.kind));
    }
    const CUresult result = Timed(journal::DriverCall::kMap, [&] { return router.Forward(real, address, bytes); });
    if (result == CUDA_SUCCESS) {
      router.physical().Unmapped(address, bytes);
      for (const recorder::FreeToken& token : tokens) router.HostMemoryFreed(token);
    } else {
      for (const recorder::FreeToken& token : tokens) recorder::FreeFailed(token, static_cast<std::uint16_t>(result));
      for (const PhysicalBook::Mapping& mapping : mappings) {
        recorder::Mapped(mapping.handle, journal::AllocationKind::kVirtual, mapping.address, mapping.bytes);
      }
    }
    return result;
  }
};

template <>
struct Handler<Effect::kSetAccess> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUdeviceptr address, std::size_t bytes,
                       const CUmemAccessDesc* access, std::size_t count) {
    const int local = 0;
    if (TouchesOurs(router, address, bytes)) return router.Forward(real, AsNumber(&local), bytes, access, count);
    return router.ForwardWithRescue(real, address, bytes, access, count);
  }
};

template <>
struct Handler<Effect::kFreeAddresses> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUdeviceptr address, std::size_t bytes) {
    const int local = 0;
    return router.Forward(real, TouchesOurs(router, address, bytes) ? AsNumber(&local) : address, bytes);
  }
};

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_HANDLERS_VIRTUAL_H_
