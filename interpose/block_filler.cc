#include "interpose/block_filler.h"

#include <cstdio>

#include "interpose/driver_memory.h"
#include "interpose/recorder/recorder.h"

namespace cuheap {

BlockFiller::BlockFiller(const DriverFunctions& driver, const CaptureWatch& captures, int byte)
    : driver_(driver), captures_(captures), byte_(byte) {
  if (byte_ < 0 || driver_.HasFill()) return;
  byte_ = -1;
  recorder::Note(journal::NoteCode::kMissingFunction, "for CUHEAP_FILL, which is off: a memset in streams");
}

CUresult BlockFiller::StreamOf(std::uint64_t context, CUstream* stream) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = own_streams_.find(context);
    if (found != own_streams_.end()) return *stream = found->second, CUDA_SUCCESS;
  }
  const CUresult result = driver_.cuStreamCreate(stream, CU_STREAM_NON_BLOCKING);
  if (result != CUDA_SUCCESS) return result;
  const std::lock_guard lock(mutex_);
  // If another thread was faster, both streams live as long as the context: destroying one is a call more that can
  // fail.
  own_streams_.emplace(context, *stream);
  return CUDA_SUCCESS;
}

// The variant for per-thread default streams with explicit handles only: what NULL means does not matter then, and the
// simulated driver's log tells our fills from a program's memsets by the name.
CUresult BlockFiller::FillNow(std::uint64_t context, CUdeviceptr address, std::size_t bytes) {
  if (captures_.AnyOpen()) return CUDA_SUCCESS;  // nothing of ours runs while a stream captures
  const RelaxedCapture relaxed(driver_);
  CUstream stream = nullptr;
  CUresult result = StreamOf(context, &stream);
  if (result == CUDA_SUCCESS) {
    result = driver_.cuMemsetD8Async_ptsz(address, static_cast<unsigned char>(byte_), bytes, stream);
  }
  if (result == CUDA_SUCCESS) result = driver_.cuStreamSynchronize(stream);
  return Told(result);
}

CUresult BlockFiller::FillInStream(const StreamRef& stream, CUdeviceptr address, std::size_t bytes) {
  if (captures_.AnyOpen()) return CUDA_SUCCESS;
  const RelaxedCapture relaxed(driver_);
  const ContextScope scope(driver_, stream.context);
  if (scope.result() != CUDA_SUCCESS) return Told(scope.result());
  const CUstream handle = stream.handle == 0 ? CU_STREAM_LEGACY : reinterpret_cast<CUstream>(stream.handle);
  {
    const std::lock_guard lock(mutex_);
    filled_[address] = stream;
  }
  return Told(driver_.cuMemsetD8Async_ptsz(address, static_cast<unsigned char>(byte_), bytes, handle));
}

CUresult BlockFiller::Told(CUresult result) {
  if (result == CUDA_SUCCESS) return result;
  {
    const std::lock_guard lock(mutex_);
    if (told_) return result;
    told_ = true;
  }
  char text[96];
  std::snprintf(text, sizeof(text), "CUHEAP_FILL: a block could not be filled, the driver reported error %d",
                static_cast<int>(result));
  recorder::Note(journal::NoteCode::kSelfCheck, text, static_cast<std::uint64_t>(result));
  return result;
}

std::optional<StreamRef> BlockFiller::Freed(CUdeviceptr address) {
  const std::lock_guard lock(mutex_);
  const auto found = filled_.find(address);
  if (found == filled_.end()) return std::nullopt;
  const StreamRef stream = found->second;
  filled_.erase(found);
  return stream;
}

void BlockFiller::StreamGone(StreamId id) {
  const std::lock_guard lock(mutex_);
  for (auto& [address, stream] : filled_) {
    if (stream.id == id) stream.id = 0;
  }
}

// Its work is over, the fills with it.
void BlockFiller::ContextGone(std::uint64_t context) {
  const std::lock_guard lock(mutex_);
  own_streams_.erase(context);
  std::erase_if(filled_, [context](const auto& entry) { return entry.second.context == context; });
}

}  // namespace cuheap
