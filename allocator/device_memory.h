// The one seam between the pool and CUDA.
//
// A DeviceMemory is asked for whole segments in the calling thread's current context. Models: the driver's cuMemAlloc
// (interpose/), an in-memory fake (allocator/fake_device_memory.h).
#ifndef CUHEAP_ALLOCATOR_DEVICE_MEMORY_H_
#define CUHEAP_ALLOCATOR_DEVICE_MEMORY_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "allocator/driver_result.h"

namespace cuheap {

// Allocate:    bytes > 0 in the current context; address aligned to at least 512 bytes.
//              Source: CUDA Driver API, Memory Management, cuMemAlloc.
// Free:        an address that Allocate returned, in any context, current or not. May synchronise. Source: cuMemFree.
//              Code 0: gone. Code 1 (invalid value): the driver does not know the address. Any other: still there.
// Synchronize: waits until all work submitted to `context` so far has completed, at most for a time the model chooses.
//              Code 0: completed. Any other code: not proven (deadline passed, not permitted now, error).
// Threads:     all three are called from any thread, at the same time, with no lock of the allocator held.
template <class M>
concept DeviceMemory =
    requires(M& memory, std::uint64_t context, std::size_t bytes, std::uint64_t address, std::uint64_t* out) {
      { memory.Allocate(bytes, out) } -> std::same_as<DriverResult>;
      { memory.Free(address) } -> std::same_as<DriverResult>;
      { memory.Synchronize(context) } -> std::same_as<DriverResult>;
    };

// A reference to any DeviceMemory, so that the pool's code need not be a template. The referenced object must outlive
// it.
class DeviceMemoryRef {
 public:
  // Not for DeviceMemoryRef itself: copying a non-constant reference would otherwise refer to the reference.
  template <DeviceMemory M>
    requires(!std::same_as<std::remove_cv_t<M>, DeviceMemoryRef>)
  DeviceMemoryRef(M& memory)  // NOLINT(google-explicit-constructor): a reference, as std::function_ref would be
      : self_(&memory),
        allocate_([](void* self, std::size_t bytes, std::uint64_t* out) {
          return static_cast<M*>(self)->Allocate(bytes, out);
        }),
        free_([](void* self, std::uint64_t address) { return static_cast<M*>(self)->Free(address); }),
        synchronize_([](void* self, std::uint64_t context) { return static_cast<M*>(self)->Synchronize(context); }) {}

  DriverResult Allocate(std::size_t bytes, std::uint64_t* out) const { return allocate_(self_, bytes, out); }
  DriverResult Free(std::uint64_t address) const { return free_(self_, address); }
  DriverResult Synchronize(std::uint64_t context) const { return synchronize_(self_, context); }

 private:
  void* self_;
  DriverResult (*allocate_)(void*, std::size_t, std::uint64_t*);
  DriverResult (*free_)(void*, std::uint64_t);
  DriverResult (*synchronize_)(void*, std::uint64_t);
};

static_assert(DeviceMemory<DeviceMemoryRef>);

}  // namespace cuheap

#endif  // CUHEAP_ALLOCATOR_DEVICE_MEMORY_H_
