#include "tests/allocator/stream_pool_oracle.h"

#include <algorithm>
#include <ostream>
#include <utility>

namespace cuheap {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

bool Overlap(DeviceAddress a, DeviceAddress a_end, DeviceAddress b, DeviceAddress b_end) {
  return a < b_end && b < a_end;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const StreamStep& step) {
  return out << "{" << static_cast<int>(step.kind) << ", " << step.a << ", " << step.b << "}";
}

StreamPoolOracle::StreamPoolOracle(const Setup& setup)
    : setup_(setup),
      memory_({.capacity = setup.capacity}),
      pool_(std::make_unique<StreamPool>(memory_, nullptr, setup.pool)) {
  for (int i = 0; i < setup.streams; ++i) streams_.push_back(NewStream());
  for (int i = 0; i < 2; ++i) pools_.push_back(pool_->AddPool(0, 0));
  memory_.set_on_unmap([this](DeviceAddress address, std::size_t bytes) { CheckUnmap(address, bytes); });
  if (setup.fail_call >= 0) memory_.FailCall(static_cast<std::uint64_t>(setup.fail_call), kDriverOutOfMemory);
}

// Every third one is a legacy stream, in which the pool may record nothing; every fifth a thread's own.
StreamRef StreamPoolOracle::NewStream() {
  StreamRef ref{next_stream_, 0x1000 + next_stream_, context_, StreamKind::kOrdinary};
  if (next_stream_ % 3 == 0) ref.kind = StreamKind::kLegacy;
  if (next_stream_ % 5 == 0) ref.kind = StreamKind::kPerThread;
  memory_.AddStream(next_stream_++, context_);
  return ref;
}

std::string StreamPoolOracle::Run(const std::vector<StreamStep>& steps) {
  for (std::size_t i = 0; i < steps.size() && violation_.empty(); ++i) {
    Do(steps[i]);
    CheckBooks();
    if (!violation_.empty()) violation_ = "step " + std::to_string(i) + ": " + violation_;
  }
  return violation_;
}

void StreamPoolOracle::Do(const StreamStep& step) {
  const StreamRef stream = streams_[step.a % streams_.size()];
  switch (step.kind) {
    case StreamStep::kAllocateSmall:
      return Allocate(step.a, step.b * 97 % 40000 + 1);
    case StreamStep::kAllocateMedium:
      return Allocate(step.a, (step.b % 24 + 1) * 100'000);
    case StreamStep::kAllocateLarge:
      return Allocate(step.a, (step.b % 9 + 1) * kMiB + (step.b % 3) * 12345);
    case StreamStep::kFree:
    case StreamStep::kFreeCross:
    case StreamStep::kFreeNow:
      return Free(step.kind, step.a, step.b);
    case StreamStep::kBadFree:
      return BadFree(step.a);
    case StreamStep::kSubmit:
      memory_.Submit(stream.id);
      return;
    case StreamStep::kComplete: {
      const std::uint64_t open = memory_.Submitted(stream.id) - memory_.Completed(stream.id);
      return Complete(stream.id, memory_.Completed(stream.id) + (open == 0 ? 0 : step.b % (open + 1)));
    }
    case StreamStep::kSynchronizeStream:
      return SynchronizeStream(stream.id);
    case StreamStep::kSynchronizeContext:
      return SynchronizeContext();
    case StreamStep::kBeginSynchronize:
      begun_.push_back({pool_->BeginSynchronize(), stream.id, {{stream.id, memory_.Submitted(stream.id)}}});
      return;
    case StreamStep::kEndSynchronize: {
      if (begun_.empty()) return;
      const Begun begun = begun_.front();
      begun_.erase(begun_.begin());
      for (const auto& [id, position] : begun.positions) Complete(id, position);
      pool_->StreamCompleted(begun.stream, begun.point);
      return;
    }
    case StreamStep::kReleaseIdle:
      pool_->ReleaseIdle(std::nullopt, step.b % 2 == 0 ? 0 : (step.b % 7) * kMiB);
      return;
    case StreamStep::kTrim:
      pool_->TrimTo(pools_[step.a % pools_.size()], (step.b % 16) * kMiB);
      return;
    case StreamStep::kThreshold:
      pool_->SetReleaseThreshold(pools_[step.a % pools_.size()], (step.b % 16) * kMiB);
      pool_->TrimAfterSynchronization();
      return;
    case StreamStep::kDestroyStream:
      return DestroyStream(step.a);
    case StreamStep::kDestroyContext:
      return DestroyContext();
    case StreamStep::kDestroyPool:
      return DestroyPool(step.a);
    case StreamStep::kPin:
      if (live_.empty()) return;
      if (Live& block = live_[step.a % live_.size()]; pool_->Pin(block.address + block.bytes / 2)) {
        block.pinned = true;
      } else {
        Fail("a live block can't be pinned");
      }
      return;
    case StreamStep::kFailSoon:
      memory_.FailCall(memory_.calls() + step.b % 6, step.b % 2 == 0 ? kDriverOutOfMemory : DriverResult{700});
      return;
    case StreamStep::kMaySynchronize:
      may_synchronize_ = step.b % 3 != 0;
      memory_.set_may_synchronize(may_synchronize_);
      return;
    case StreamStep::kKinds:
      return;
  }
}

void StreamPoolOracle::Allocate(std::uint32_t a, std::size_t bytes) {
  const StreamRef stream = streams_[a % streams_.size()];
  const StreamPoolId id = pools_[a / 7 % pools_.size()];
  const StreamAllocateOutcome outcome = pool_->Allocate(id, stream, bytes);
  if (!outcome.result.ok()) {
    if (outcome.result != kDriverOutOfMemory && outcome.result.code != 700) Fail("an error of no driver's");
    return;
  }
  const StreamPoolBlock& block = outcome.block;
  const DeviceAddress end = block.address + block.block_bytes;
  if (block.bytes != bytes || block.block_bytes < bytes || block.address % 512 != 0 || block.pool != id)
    return Fail("a block that was not asked for");
  if (!memory_.Usable(block.address, block.block_bytes, 0)) return Fail("the device can't use the block");
  for (const Live& other : live_) {
    if (Overlap(block.address, end, other.address, other.address + other.block_bytes)) return Fail("blocks overlap");
  }
  for (const Dirty& pinned : pinned_) {
    if (Overlap(block.address, end, pinned.address, pinned.end)) return Fail("pinned memory was reused");
  }
  for (const Dirty& dirty : dirty_) {
    if (!Overlap(block.address, end, dirty.address, dirty.end)) continue;
    if (dirty.stream != stream.id && Running(dirty))
      return Fail("handed to another stream before the free was reached");
  }
  reuses_ += outcome.source == StreamSource::kProven || outcome.source == StreamSource::kAfterWait;
  live_.push_back({block.address, bytes, block.block_bytes, stream.id, id, false});
  memory_.Submit(stream.id);
}

StreamPoolOracle::Live StreamPoolOracle::Take(std::uint32_t a) {
  const std::size_t at = a % live_.size();
  const Live block = live_[at];
  live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(at));
  return block;
}

void StreamPoolOracle::Free(StreamStep::Kind kind, std::uint32_t a, std::uint32_t b) {
  if (live_.empty()) return;
  const Live block = Take(a);
  StreamRef in{};
  for (const StreamRef& stream : streams_) {
    if (stream.id == block.stream) in = stream;
  }
  // A stream that is gone can't be named: another one, or the host, which waits for its work.
  if (kind == StreamStep::kFreeCross || (kind == StreamStep::kFree && in.id == 0)) in = streams_[b % streams_.size()];
  const bool now = kind == StreamStep::kFreeNow;
  if (now) {
    // The block's own accesses are over; what its memory was used for before may not be.
    if (b % 2 == 0) Complete(block.stream, memory_.Submitted(block.stream));
  } else if (in.id != block.stream) {
    waits_.push_back({{0, 0, in.id, memory_.Submit(in.id)}, {0, 0, block.stream, memory_.Submitted(block.stream)}});
  }
  const StreamFreeOutcome outcome = pool_->Free(block.address, now ? nullptr : &in);
  if (outcome.status != StreamFreeStatus::kFreed || outcome.block.bytes != block.bytes)
    Fail("a live block was not freed");
  const DeviceAddress end = block.address + block.block_bytes;
  if (block.pinned) pinned_.push_back({block.address, end, 0, 0});
  if (now) return;
  // The stream has waited for all that came before in this range.
  std::vector<Dirty> outside;
  for (const Dirty& dirty : dirty_) {
    if (dirty.address < block.address)
      outside.push_back({dirty.address, std::min(dirty.end, block.address), dirty.stream, dirty.position});
    if (dirty.end > end) outside.push_back({std::max(dirty.address, end), dirty.end, dirty.stream, dirty.position});
  }
  dirty_ = std::move(outside);
  dirty_.push_back({block.address, end, in.id, memory_.Submitted(in.id)});
}

void StreamPoolOracle::BadFree(std::uint32_t a) {
  if (pool_->Free(1 << 20, &streams_[0]).status != StreamFreeStatus::kNotOurs) Fail("a foreign address was freed");
  if (live_.empty()) return;
  const Live& block = live_[a % live_.size()];
  if (pool_->Free(block.address + 256, &streams_[0]).status != StreamFreeStatus::kInvalid)
    Fail("an interior was freed");
  if (!pool_->Owns(block.address + 256)) Fail("its own address is not owned");
  const auto found = pool_->Find(block.address + block.bytes - 1);
  if (!found.has_value() || found->address != block.address || found->bytes != block.bytes)
    Fail("a block is not found");
  const auto beyond = pool_->Find(block.address + block.bytes);
  if (beyond.has_value() && beyond->address == block.address) Fail("found beyond its end");
}

void StreamPoolOracle::Complete(StreamId stream, std::uint64_t position) {
  if (position <= memory_.Completed(stream)) return;
  for (const auto& [waiting, on] : std::vector(waits_)) {
    if (waiting.stream == stream && waiting.position <= position && Running(on)) Complete(on.stream, on.position);
  }
  memory_.Complete(stream, position);
}

void StreamPoolOracle::SynchronizeStream(StreamId stream) {
  const std::uint64_t point = pool_->BeginSynchronize();
  Complete(stream, memory_.Submitted(stream));
  if (pool_->StreamCompleted(stream, point)) pool_->TrimAfterSynchronization();
}

void StreamPoolOracle::SynchronizeContext() {
  const std::uint64_t point = pool_->BeginSynchronize();
  for (StreamId id = 1; id < next_stream_; ++id) Complete(id, memory_.Submitted(id));
  if (pool_->ContextCompleted(context_, point)) pool_->TrimAfterSynchronization();
}

void StreamPoolOracle::DestroyStream(std::uint32_t a) {
  StreamRef& stream = streams_[a % streams_.size()];
  if (stream.kind != StreamKind::kOrdinary) return;
  pool_->StreamDestroying(stream.id);
  memory_.DestroyStream(stream.id);
  pool_->StreamDestroyed(stream.id);
  std::erase_if(begun_, [&](const Begun& begun) { return begun.stream == stream.id; });
  stream = NewStream();
}

void StreamPoolOracle::DestroyContext() {
  pool_->ContextDestroying(context_);
  for (StreamId id = 1; id < next_stream_; ++id) {
    memory_.Complete(id, memory_.Submitted(id));
    memory_.DestroyStream(id);
  }
  pool_->ContextDestroyed(context_);
  begun_.clear();
  ++context_;
  for (StreamRef& stream : streams_) stream = NewStream();
}

void StreamPoolOracle::DestroyPool(std::uint32_t a) {
  StreamPoolId& id = pools_[a % pools_.size()];
  pool_->DestroyPool(id);
  id = pool_->AddPool(0, 0);
}

void StreamPoolOracle::CheckUnmap(DeviceAddress address, std::size_t bytes) {
  for (const Live& block : live_) {
    if (Overlap(address, address + bytes, block.address, block.address + block.block_bytes))
      return Fail("pages of a live block went back");
  }
  for (const Dirty& dirty : dirty_) {
    if (Overlap(address, address + bytes, dirty.address, dirty.end) && Running(dirty))
      return Fail("pages went back while a stream may use them");
  }
}

void StreamPoolOracle::CheckBooks() {
  std::erase_if(dirty_, [this](const Dirty& dirty) { return !Running(dirty); });
  if (const char* broken = pool_->CheckInvariants()) return Fail(broken);
  const StreamPoolStats stats = pool_->DeviceStats(0);
  std::size_t used = 0, requested = 0;
  for (const Live& block : live_) used += block.block_bytes, requested += block.bytes;
  if (stats.used != used || stats.requested != requested) return Fail("used bytes are off");
  if (stats.moving != 0) return Fail("something is still on its way");
  if (stats.reserved != stats.used + stats.free + stats.pinned) return Fail("reserved bytes are off");
  const std::size_t held = memory_.held(0);
  if (held > stats.reserved || held < stats.reserved - stats.pinned) return Fail("the device holds another sum");
  if (pool_->IdleBytes(0) > stats.free) return Fail("more idle than free");
}

}  // namespace cuheap
