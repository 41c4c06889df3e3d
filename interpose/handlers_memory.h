// Handlers of what allocates and frees.
#ifndef CUHEAP_INTERPOSE_HANDLERS_MEMORY_H_
#define CUHEAP_INTERPOSE_HANDLERS_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "interpose/array_bytes.h"
#include "interpose/handlers.h"
#include "interpose/ipc_handle.h"

namespace cuheap {

// What became of a forwarded allocation.
struct Outcome {
  CUresult result;
  operator bool() const { return result == CUDA_SUCCESS; }  // NOLINT(google-explicit-constructor)
  // The driver has read what it was given, so that it can be read. Any other error may be that of a wrong pointer.
  bool read() const { return result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY; }
};

// An allocation forwarded and recorded: fill(allocation, made) sets address, bytes and the like, once the call
// returned. The program's outputs may be read only if it was made, its descriptions if the driver has read them.
template <class Fill, class Real, class... Args>
CUresult ForwardAllocation(Router& router, journal::AllocationKind kind, Fill&& fill, Real real, Args... args) {
  const Place place = router.Where();
  router.DeviceSeen(place.device);
  const CUresult result = Timed(AllocationCall(kind), [&] { return router.ForwardWithRescue(real, args...); });
  recorder::Allocation allocation;
  allocation.kind = kind;
  const recorder::CapturedStack stack = recorder::CaptureStack(true);
  allocation.stack = stack.id;
  if (stack.caller_is_pytorch) allocation.flags |= journal::kCallerIsPyTorch;
  fill(allocation, Outcome{result});
  router.RecordAllocation(result, allocation, place);
  return result;
}

template <>
struct Handler<Effect::kAllocate> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUdeviceptr* out, std::size_t bytes) {
    const Place place = router.Where();
    router.DeviceSeen(place.device);
    const recorder::CapturedStack stack = recorder::CaptureStack(true);
    recorder::Allocation allocation;
    allocation.kind = journal::AllocationKind::kDevice;
    allocation.bytes = bytes;
    allocation.stack = stack.id;
    if (stack.caller_is_pytorch) allocation.flags |= journal::kCallerIsPyTorch;
    const bool serve = out != nullptr && bytes != 0 && !stack.caller_is_pytorch && router.MayServe(place);
    const CUresult result =
        serve ? router.Serve(place, out, bytes, allocation) : Timed(journal::DriverCall::kAllocate, [&] {
          return router.ForwardWithRescue(real, out, bytes);
        });
    if (result == CUDA_SUCCESS && out != nullptr) allocation.address = *out;
    router.RecordAllocation(result, allocation, place);
    return result;
  }
};

template <>
struct Handler<Effect::kAllocatePitched> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUdeviceptr* out, std::size_t* pitch, std::size_t width,
                       std::size_t height, unsigned int element) {
    const auto fill = [&](recorder::Allocation& allocation, Outcome made) {
      allocation.address = made ? *out : 0;
      allocation.bytes = (made ? *pitch : width) * height;
    };
    return ForwardAllocation(router, journal::AllocationKind::kPitched, fill, real, out, pitch, width, height, element);
  }
};

template <>
struct Handler<Effect::kAllocateManaged> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUdeviceptr* out, std::size_t bytes, unsigned int flags) {
    const auto fill = [&](recorder::Allocation& allocation, Outcome made) {
      allocation.address = made ? *out : 0;
      allocation.bytes = bytes;
    };
    return ForwardAllocation(router, journal::AllocationKind::kManaged, fill, real, out, bytes, flags);
  }
};

// Data of loaded code: a variable of the device, or a managed one.
template <>
struct Handler<Effect::kGetVariable> {
  template <class Real, class... Of>
  static CUresult Call(Router& router, HookId id, Real real, CUdeviceptr* out, std::size_t* bytes, Of... of) {
    const CUresult result = router.ForwardWithRescue(real, out, bytes, of...);
    if (result == CUDA_SUCCESS && out != nullptr) router.VariableFound(*out, id == HookId::cuLibraryGetManaged);
    return result;
  }
};

template <>
struct Handler<Effect::kFree> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUdeviceptr address) {
    if (const auto answer = router.FreeStreamBlockNow(address)) return *answer;
    if (const auto answer = router.FreePoolBlock(address, 0, true)) return *answer;
    return router.ForwardFree(address, journal::AllocationKind::kNone, 0, real, address);
  }
};

template <>
struct Handler<Effect::kAllocateHost> {
  template <class Real, class... Flags>
  static CUresult Call(Router& router, HookId, Real real, void** out, std::size_t bytes, Flags... flags) {
    const auto fill = [&](recorder::Allocation& allocation, Outcome made) {
      allocation.address = made ? AsNumber(*out) : 0;
      allocation.bytes = bytes;
    };
    return ForwardAllocation(router, journal::AllocationKind::kHostPinned, fill, real, out, bytes, flags...);
  }
};

template <>
struct Handler<Effect::kFreeHost> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, void* address) {
    return router.ForwardFree(AsNumber(address), journal::AllocationKind::kNone, 0, real, address);
  }
};

template <>
struct Handler<Effect::kRegisterHost> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, void* address, std::size_t bytes, unsigned int flags) {
    const auto fill = [&](recorder::Allocation& allocation, Outcome) {
      allocation.address = AsNumber(address);
      allocation.bytes = bytes;
    };
    return ForwardAllocation(router, journal::AllocationKind::kHostRegistered, fill, real, address, bytes, flags);
  }
};

template <>
struct Handler<Effect::kUnregisterHost> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, void* address) {
    return router.ForwardFree(AsNumber(address), journal::AllocationKind::kHostRegistered, 0, real, address);
  }
};

template <>
struct Handler<Effect::kCreateArray> {
  template <class Real, class Descriptor>
  static CUresult Call(Router& router, HookId, Real real, CUarray* out, const Descriptor* descriptor) {
    const auto fill = [&](recorder::Allocation& allocation, Outcome made) {
      allocation.address = made ? AsNumber(*out) : 0;
      allocation.bytes = made.read() ? ArrayBytes(*descriptor) : 0;
    };
    return ForwardAllocation(router, journal::AllocationKind::kArray, fill, real, out, descriptor);
  }
};

template <>
struct Handler<Effect::kDestroyArray> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUarray array) {
    return router.ForwardFree(AsNumber(array), journal::AllocationKind::kArray, 0, real, array);
  }
};

template <>
struct Handler<Effect::kCreateMipmappedArray> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUmipmappedArray* out,
                       const CUDA_ARRAY3D_DESCRIPTOR* descriptor, unsigned int levels) {
    const auto fill = [&](recorder::Allocation& allocation, Outcome made) {
      allocation.address = made ? AsNumber(*out) : 0;
      allocation.bytes = made.read() ? MipmappedArrayBytes(*descriptor, levels) : 0;
    };
    return ForwardAllocation(router, journal::AllocationKind::kMipmappedArray, fill, real, out, descriptor, levels);
  }
};

template <>
struct Handler<Effect::kDestroyMipmappedArray> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUmipmappedArray array) {
    return router.ForwardFree(AsNumber(array), journal::AllocationKind::kMipmappedArray, 0, real, array);
  }
};

// ---- memory that others own: mapped here, freed here, but not this process's to count ----

template <>
struct Handler<Effect::kOpenIpc> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUdeviceptr* out, CUipcMemHandle handle, unsigned int flags) {
    const Place place = router.Where();
    recorder::Allocation allocation;
    allocation.kind = journal::AllocationKind::kImported;
    CUresult result = CUDA_SUCCESS;
    bool first = true;
    const std::optional<ipc::Handle> ours = out == nullptr ? std::nullopt : ipc::ParseHandle(handle);
    const std::optional<ipc::SharedBlock> shared = ours ? ipc::Resolve(*ours) : std::nullopt;
    if (shared) {
      result = OpenShared(router, real, out, *shared, flags, place, &first);
      if (result == CUDA_SUCCESS) allocation.bytes = shared->bytes;
    } else {
      result = router.ForwardWithRescue(real, out, handle, flags);
      if (result == CUDA_SUCCESS) first = router.imports().Opened(*out, place.context);
      if (result == CUDA_SUCCESS && first) allocation.bytes = router.DriverRange(*out);
    }
    if (result == CUDA_SUCCESS && !first) return result;
    if (result == CUDA_SUCCESS) allocation.address = *out;
    allocation.stack = recorder::CaptureStack().id;
    router.RecordAllocation(result, allocation, place);
    return result;
  }

 private:
  // A packed block of another process: its slab is opened, once more each time, and the block's place in it told.
  template <class Real>
  static CUresult OpenShared(Router& router, Real real, CUdeviceptr* out, const ipc::SharedBlock& shared,
                             unsigned int flags, const Place& place, bool* first) {
    CUdeviceptr slab = 0;
    const CUresult result = router.ForwardWithRescue(real, &slab, shared.driver_handle, flags);
    if (result != CUDA_SUCCESS) return result;
    ImportBook::Block block;
    block.address = slab + shared.offset;
    block.bytes = shared.bytes;
    block.segment = slab;
    block.segment_bytes = shared.segment_bytes;
    *first = router.imports().OpenedBlock(block, place.context);
    *out = block.address;
    return CUDA_SUCCESS;
  }
};

template <>
struct Handler<Effect::kCloseIpc> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUdeviceptr address) {
    const int local = 0;
    CUdeviceptr opened = address;
    // The driver knows the slab of a packed block, and would take its address for one that the program has opened.
    if (const ImportBook::Place place = router.imports().Find(address); place.inside) {
      if (!place.block || place.block->address != address) return router.Forward(real, AsNumber(&local));
      opened = place.block->segment;
    }
    const CUresult result = router.imports().EndedByClose(address)
                                ? router.ForwardFree(address, journal::AllocationKind::kNone, 0, real, opened)
                                : router.Forward(real, opened);
    if (result == CUDA_SUCCESS) router.imports().Closed(address);
    return result;
  }
};

template <>
struct Handler<Effect::kImportPoolPointer> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUdeviceptr* out, CUmemoryPool pool,
                       CUmemPoolPtrExportData* data) {
    const auto fill = [&](recorder::Allocation& allocation, Outcome made) {
      allocation.address = made ? *out : 0;
      allocation.bytes = made ? router.DriverRange(*out) : 0;
    };
    return ForwardAllocation(router, journal::AllocationKind::kImported, fill, real, out, pool, data);
  }
};

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_HANDLERS_MEMORY_H_
