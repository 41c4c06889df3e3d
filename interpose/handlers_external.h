// Handlers of memory of other interfaces (external memory, graphics) and of multicast objects: mapped or bound here,
// but not this process's to count.
#ifndef CUHEAP_INTERPOSE_HANDLERS_EXTERNAL_H_
#define CUHEAP_INTERPOSE_HANDLERS_EXTERNAL_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "interpose/array_bytes.h"
#include "interpose/handlers.h"
#include "interpose/handlers_identity.h"
#include "interpose/handlers_memory.h"

namespace cuheap {

template <>
struct Handler<Effect::kMapExternal> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUdeviceptr* out, CUexternalMemory memory,
                       const CUDA_EXTERNAL_MEMORY_BUFFER_DESC* buffer) {
    const auto fill = [&](recorder::Allocation& allocation, Outcome made) {
      allocation.address = made ? *out : 0;
      allocation.bytes = made.read() ? buffer->size : 0;
    };
    return ForwardAllocation(router, journal::AllocationKind::kExternal, fill, real, out, memory, buffer);
  }
};

template <>
struct Handler<Effect::kMapExternalArray> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUmipmappedArray* out, CUexternalMemory memory,
                       const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC* description) {
    const auto fill = [&](recorder::Allocation& allocation, Outcome made) {
      allocation.address = made ? AsNumber(*out) : 0;
      if (made.read()) {
        allocation.bytes = MipmappedArrayBytes(description->arrayDesc, description->numLevels);
      }
    };
    return ForwardAllocation(router, journal::AllocationKind::kExternalArray, fill, real, out, memory, description);
  }
};

// A mapped resource may be asked for its address as often as the program likes.
template <>
struct Handler<Effect::kMapGraphics> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUdeviceptr* out, std::size_t* bytes,
                       CUgraphicsResource resource) {
    CUdeviceptr address = 0;
    std::size_t size = 0;
    const CUresult result = router.Forward(real, out != nullptr ? &address : nullptr, &size, resource);
    if (result != CUDA_SUCCESS) return result;
    if (out != nullptr) *out = address;
    if (bytes != nullptr) *bytes = size;
    if (address == 0 || !router.graphics().Mapped(AsNumber(resource), address)) return result;
    recorder::Allocation allocation;
    allocation.kind = journal::AllocationKind::kExternal;
    allocation.address = address;
    allocation.bytes = size;
    allocation.stack = recorder::CaptureStack().id;
    router.RecordAllocation(result, allocation, router.Where());
    return result;
  }
};

// Around a call that ends the mappings of `count` resources, if it succeeds.
template <class Call>
CUresult UnmappingGraphics(Router& router, const CUgraphicsResource* resources, unsigned int count, Call&& call) {
  std::vector<recorder::FreeToken> tokens;
  for (unsigned int i = 0; resources != nullptr && i < count; ++i) {
    if (const std::uint64_t address = router.graphics().Find(AsNumber(resources[i])); address != 0) {
      tokens.push_back(router.Freeing(address, 0, journal::AllocationKind::kExternal));
    }
  }
  const CUresult result = router.Observe(call());
  if (result == CUDA_SUCCESS) {
    for (unsigned int i = 0; resources != nullptr && i < count; ++i) router.graphics().Unmapped(AsNumber(resources[i]));
  } else {
    for (const recorder::FreeToken& token : tokens) recorder::FreeFailed(token, static_cast<std::uint16_t>(result));
  }
  return result;
}

template <>
struct Handler<Effect::kUnmapGraphics> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, unsigned int count, CUgraphicsResource* resources,
                       CUstream stream) {
    return UnmappingGraphics(router, resources, count, [&] { return real(count, resources, stream); });
  }
};

template <>
struct Handler<Effect::kUnregisterGraphics> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUgraphicsResource resource) {
    return UnmappingGraphics(router, &resource, 1, [&] { return real(resource); });
  }
};

// ---- multicast objects: one address for memory on several devices, which is counted by itself ----

template <>
struct Handler<Effect::kCreateMulticast> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUmemGenericAllocationHandle* out,
                       const CUmulticastObjectProp* properties) {
    const auto kind = journal::AllocationKind::kMulticast;
    const auto fill = [&](recorder::Allocation& allocation, Outcome made) {
      allocation.address = made ? *out : 0;
      allocation.bytes = made.read() ? properties->size : 0;
    };
    const CUresult result = ForwardAllocation(router, kind, fill, real, out, properties);
    if (result == CUDA_SUCCESS) router.physical().Created(*out, kind);
    return result;
  }
};

// What is bound stays reachable through the object, whatever becomes of its own address.
inline CUdeviceptr KeptForBinding(Router& router, CUdeviceptr address, std::size_t bytes, const int& nowhere) {
  const Identity identity(router, address);
  if (!identity.pooled) return address;
  if (!identity.live() || bytes > identity.begin() + identity.bytes() - address) return AsNumber(&nowhere);
  if (identity.pooled_by_streams) {
    router.streams()->pool().Pin(identity.begin());
  } else {
    router.Expose(address, /*refuse_packed=*/false);
  }
  return address;
}

template <>
struct Handler<Effect::kBindAddress> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUmemGenericAllocationHandle multicast, std::size_t offset,
                       CUdeviceptr address, std::size_t bytes, unsigned long long flags) {
    const int nowhere = 0;
    return router.ForwardWithRescue(real, multicast, offset, KeptForBinding(router, address, bytes, nowhere), bytes,
                                    flags);
  }
};

template <>
struct Handler<Effect::kBindAddressOnDevice> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUmemGenericAllocationHandle multicast, CUdevice device,
                       std::size_t offset, CUdeviceptr address, std::size_t bytes, unsigned long long flags) {
    const int nowhere = 0;
    return router.ForwardWithRescue(real, multicast, device, offset, KeptForBinding(router, address, bytes, nowhere),
                                    bytes, flags);
  }
};

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_HANDLERS_EXTERNAL_H_
