// The router's part in stream-ordered allocation.
#include "interpose/router.h"

namespace cuheap {

std::optional<CUresult> Router::ServeInStream(HookId id, const Place& place, std::optional<CUmemoryPool> pool,
                                              CUstream stream, CUdeviceptr* out, std::size_t bytes,
                                              recorder::Allocation& allocation) {
  if (streams_ == nullptr || !MayServeAnything(place)) return std::nullopt;
  const StreamService::Stream known = streams_->Identify(id, stream, place.context, place.device);
  if (known.result != CUDA_SUCCESS || contexts_.IsGreen(known.ref.context)) return std::nullopt;
  const StreamPoolId from = pool ? streams_->PoolOf(*pool) : streams_->CurrentPool(known.device);
  if (from == 0) return std::nullopt;
  ContextSeen(known.ref.context);
  streams_->SetUsed();
  StreamAllocateOutcome served = streams_->pool().Allocate(from, known.ref, bytes);
  // What the pool for synchronous requests keeps is no reason to fail.
  if (served.result == kDriverOutOfMemory) {
    for (Rescue rescue(*this); served.result == kDriverOutOfMemory && rescue.Again();) {
      served = streams_->pool().Allocate(from, known.ref, bytes);
    }
    if (served.result.ok()) recorder::Count(journal::Counter::kOutOfMemoryRescues);
  }
  // The driver's own pool stays beside ours, and has address space already.
  if (served.no_address_space) return std::nullopt;
  if (!served.result.ok()) return Observe(static_cast<CUresult>(served.result.code));
  const bool hit = served.source != StreamSource::kDriver;
  recorder::Count(hit ? journal::Counter::kPoolHits : journal::Counter::kPoolMisses);
  if (served.source == StreamSource::kAfterWait) RecordPoolState(served.block.device);
  *out = served.block.address;
  allocation.flags |= journal::kServedFromPool;
  allocation.reserved_bytes = served.block.block_bytes;
  allocation.device = static_cast<std::uint16_t>(served.block.device);
  if (filler_.on()) Observe(filler_.FillInStream(known.ref, *out, bytes));
  return CUDA_SUCCESS;
}

std::optional<CUresult> Router::FreeInStream(HookId id, CUdeviceptr address, CUstream stream) {
  if (streams_ == nullptr || !streams_->pool().Owns(address)) return std::nullopt;
  const Place place = Where();
  const StreamService::Stream known = streams_->Identify(id, stream, place.context, place.device);
  if (known.result != CUDA_SUCCESS) return Observe(known.result);
  if (captures_.AnyOpen()) {
    // In a capture this would be a node of the graph, which frees only what the graph has allocated.
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUresult asked = CaptureStatus(id, stream, &status);
    if (asked != CUDA_SUCCESS) return asked;
    if (status != CU_STREAM_CAPTURE_STATUS_NONE) return CUDA_ERROR_INVALID_VALUE;
  }
  return FreeStreamBlock(address, reinterpret_cast<std::uint64_t>(stream), &known.ref);
}

std::optional<CUresult> Router::FreeStreamBlockNow(CUdeviceptr address) {
  if (streams_ == nullptr || !streams_->pool().Owns(address)) return std::nullopt;
  const Place place = Where();
  if (place.result != CUDA_SUCCESS) return FreeAtTheEnd(place.result, address);
  if (place.context == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (captures_.AnyOpen() && streams_->pool().Find(address)) {
    if (const CUresult verdict = AskForFreeDuringCapture(place.context); verdict != CUDA_SUCCESS) return verdict;
  }
  const CUresult result = FreeStreamBlock(address, 0, nullptr);
  // No wait otherwise: "this API will not perform any implicit synchronization when the pointer was allocated with
  // cuMemAllocAsync". Source: CUDA Driver API, cuMemFree.
  return result == CUDA_SUCCESS && passing_through() ? SynchronizeForFree(place.context) : result;
}

CUresult Router::FreeStreamBlock(CUdeviceptr address, std::uint64_t handle, const StreamRef* stream) {
  StreamPool& pool = streams_->pool();
  // Recorded first: once the pool has it, another thread may be given the address.
  const recorder::FreeToken token = Freeing(address, handle, journal::AllocationKind::kNone);
  // What was captured with this address may be replayed as long as the graph lives.
  const std::uint64_t pinned = captures_.AnyOpen() && pin_captured_ ? pool.PinForNow(address) : 0;
  const std::optional<StreamRef> filling = filler_.on() ? filler_.Freed(address) : std::nullopt;
  if (filling && stream == nullptr) {
    // The program is done with the block, our fill may not be: it counts as a use in its stream.
    if (filling->id != 0) {
      stream = &*filling;
    } else if (helper_.Synchronize(filling->context, fill_deadline_) != CUDA_SUCCESS) {
      pool.Pin(address);
    }
  }
  const StreamFreeOutcome freed = pool.Free(address, stream);
  if (pinned != 0 && freed.status == StreamFreeStatus::kFreed) {
    captures_.Hold(held_.Hold(freed.block, stream != nullptr ? stream->context : Where().context));
  } else if (pinned != 0) {
    pool.Unpin(address, pinned, Where().context);  // another thread was faster
  }
  if (freed.status == StreamFreeStatus::kFreed) return CUDA_SUCCESS;
  if (token.known) recorder::FreeFailed(token, CUDA_ERROR_INVALID_VALUE);
  return WrongFree();
}

std::optional<Router::StreamWait> Router::BeginStreamWait(HookId id, CUstream stream) {
  if (streams_ == nullptr || !streams_->used()) return std::nullopt;
  const Place place = Where();
  const StreamService::Stream known = streams_->Identify(id, stream, place.context, place.device);
  if (known.result != CUDA_SUCCESS) return std::nullopt;
  return StreamWait{known.ref.id, streams_->pool().BeginSynchronize()};
}

void Router::StreamWaitCompleted(const StreamWait& wait) {
  if (streams_->pool().StreamCompleted(wait.stream, wait.point)) TrimStreamPools();
}

void Router::StreamWent(StreamId stream, bool gone) {
  if (!gone) return streams_->pool().StreamKept(stream);
  streams_->pool().StreamDestroyed(stream);
  if (filler_.on()) filler_.StreamGone(stream);
  streams_->StreamGone(stream);
}

void Router::TrimStreamPools() {
  if (!captures_.AnyOpen()) streams_->pool().TrimAfterSynchronization();
}

void Router::StreamSegmentAllocated(int device, DeviceAddress address, std::size_t bytes) {
  SegmentAllocated(/*context=*/0, device, address, bytes);  // it belongs to the device, as memory of pools does
  if (device >= 0 && device < 64) stream_reserved_[device].fetch_add(bytes, std::memory_order_relaxed);
  RecordPoolState(device);
}

void Router::StreamSegmentFreeing(int device, DeviceAddress address, std::size_t bytes) {
  SegmentFreeing(/*context=*/0, device, address, bytes);
  if (device >= 0 && device < 64) stream_reserved_[device].fetch_sub(bytes, std::memory_order_relaxed);
  RecordPoolState(device);
}

}  // namespace cuheap
