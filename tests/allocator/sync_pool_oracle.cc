#include "tests/allocator/sync_pool_oracle.h"

#include <algorithm>
#include <iterator>
#include <sstream>

namespace cuheap {
namespace {

constexpr const char* kNames[] = {"kAllocateSmall",    "kAllocateMedium", "kAllocateLarge", "kFree",        "kBadFree",
                                  "kBeginSynchronize", "kEndSynchronize", "kSynchronize",   "kReleaseIdle", "kPin",
                                  "kExport",           "kPeersEnabled",   "kDestroyContext", "kFailSoon"};
static_assert(std::size(kNames) == PoolStep::kKinds);

bool Overlap(DeviceAddress begin, DeviceAddress end, DeviceAddress other_begin, DeviceAddress other_end) {
  return begin < other_end && other_begin < end;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const PoolStep& step) {
  return out << "{PoolStep::" << kNames[step.kind] << ", " << step.a << ", " << step.b << "}";
}

SyncPoolOracle::SyncPoolOracle(const Setup& setup)
    : setup_(setup), memory_(setup.memory), pool_(memory_, nullptr, setup.pool) {
  if (setup.fail_call >= 0) {
    memory_.FailCall(static_cast<std::uint64_t>(setup.fail_call), DriverResult{setup.fail_code});
    failures_possible_ = true;
  }
  memory_.set_watcher(
      [this](const FakeDeviceMemory::Call& call, bool after, DriverResult result) { Watch(call, after, result); });
}

std::string SyncPoolOracle::Run(const std::vector<PoolStep>& steps) {
  std::size_t number = 0;
  for (const PoolStep& step : steps) {
    Step(step);
    CheckStats();
    if (!violation_.empty()) {
      std::ostringstream text;
      text << "step " << number << " " << step << ": " << violation_;
      return text.str();
    }
    ++number;
  }
  Finish();
  return violation_;
}

void SyncPoolOracle::Fail(const std::string& what) {
  if (violation_.empty()) violation_ = what;
}

void SyncPoolOracle::Step(const PoolStep& step) {
  const ContextId context = kContexts[step.b % 4 == 3 ? 1 : step.b % 4 == 2 ? 2 : 0];
  switch (step.kind) {
    case PoolStep::kAllocateSmall:
      return Allocate(context, step.a % 6000 + 1);
    case PoolStep::kAllocateMedium:
      return Allocate(context, 100'000 + step.a % 1'000'000);
    case PoolStep::kAllocateLarge:
      return Allocate(context, (2u << 20) + step.a % (6u << 20));
    case PoolStep::kFree:
      return Free(step.a);
    case PoolStep::kBadFree:
      return BadFree(step.a, step.b);
    case PoolStep::kBeginSynchronize:
      SeeContext(context);
      under_way_.push_back({context, pool_.BeginSynchronize(context), ++now_});
      return;
    case PoolStep::kEndSynchronize:
      if (!under_way_.empty()) EndSynchronize(step.a % under_way_.size(), step.b % 8 != 0);
      return;
    case PoolStep::kSynchronize:
      SeeContext(context);
      under_way_.push_back({context, pool_.BeginSynchronize(context), ++now_});
      return EndSynchronize(under_way_.size() - 1, true);
    case PoolStep::kReleaseIdle:
      pool_.ReleaseIdle();
      return;
    case PoolStep::kPin:
      if (live_.empty() || step.b % 4 != 0) return;  // rare, or all memory ends pinned
      live_[step.a % live_.size()].pinned = true;
      if (!pool_.Pin(live_[step.a % live_.size()].block.address)) Fail("a live block can't be pinned");
      return;
    case PoolStep::kExport: {
      if (live_.empty()) return;
      Live& live = live_[step.a % live_.size()];
      if (pool_.Export(live.block.address).has_value() != live.block.packed) Fail("not exactly packed blocks are exported");
      live.exported |= live.block.packed;
      return;
    }
    case PoolStep::kPeersEnabled:
      if (step.a % 4 != 0) return;
      peers_ = true;
      pool_.PeersEnabled();
      return;
    case PoolStep::kDestroyContext:
      if (step.a % 4 == 0) DestroyContext(context);
      return;
    case PoolStep::kFailSoon:
      failures_possible_ = true;
      memory_.FailCall(memory_.calls() + step.a % 4, DriverResult{step.b % 2 == 0 ? 2 : 700});
      return;
    case PoolStep::kKinds:
      return;
  }
}

void SyncPoolOracle::Allocate(ContextId context, std::size_t bytes) {
  memory_.set_current_context(context);
  SeeContext(context);
  const std::uint64_t calls_before = memory_.calls();
  const AllocateOutcome outcome = pool_.Allocate(context, DeviceOf(context), bytes);
  if (!outcome.result.ok()) return CheckRefusal(outcome, context, bytes);
  if (outcome.source == AllocationSource::kReady && memory_.calls() != calls_before) {
    Fail("a hit made driver calls");
  }
  CheckTaken(outcome, context, bytes);
  live_.push_back({outcome.block});
}

void SyncPoolOracle::CheckTaken(const AllocateOutcome& outcome, ContextId context, std::size_t bytes) {
  const PoolBlock& block = outcome.block;
  const DeviceAddress begin = block.address, end = begin + block.block_bytes;
  if (block.bytes != bytes || block.context != context || block.device != DeviceOf(context)) Fail("not what was asked");
  if (block.block_bytes < bytes || begin % 512 != 0) Fail("too small or badly aligned");
  if (block.incarnation <= last_incarnation_) Fail("an incarnation came twice");
  last_incarnation_ = block.incarnation;
  const std::size_t waste = block.block_bytes - bytes;
  if (block.packed ? waste >= 512 && waste * 4 > block.block_bytes : waste * 8 > bytes) Fail("too wasteful");
  const auto segment = segments_.find(block.segment);
  if (segment == segments_.end() || segment->second.bytes != block.segment_bytes)
    return Fail("not in a driver segment");
  if (begin < block.segment || end > block.segment + block.segment_bytes) Fail("reaches out of its segment");
  if (segment->second.context != context) Fail("another context's memory");
  segment->second.packed = block.packed;
  for (const Live& other : live_) {
    if (Overlap(begin, end, other.block.address, other.block.address + other.block.block_bytes)) {
      return Fail("overlaps a live block");
    }
  }
  std::erase_if(retired_, [&](const Retired& retired) {
    if (!Overlap(begin, end, retired.begin, retired.end)) return false;
    if (retired.pinned) Fail("a pinned block was reused");
    if (retired.exported) Fail("an exported block was reused");
    if (!retired.proven) Fail("a block was reused before a synchronisation begun after its free had completed");
    return true;
  });
}

void SyncPoolOracle::CheckRefusal(const AllocateOutcome& outcome, ContextId context, std::size_t bytes) {
  if (failures_possible_) return;
  if (outcome.result != kDriverOutOfMemory) return Fail("an error that the driver did not give");
  // What the driver alone could have served must be served.
  std::size_t used = 0;
  const auto rounded = [&](std::size_t n) {
    return (n + setup_.memory.granule - 1) / setup_.memory.granule * setup_.memory.granule;
  };
  for (const auto& [address, size] : memory_.Live()) used += rounded(size);
  if (used + rounded(bytes) <= setup_.memory.capacity) Fail("refused although the driver could have served it");
  if (pool_.IdleBytes(DeviceOf(context)) != 0) Fail("refused although idle memory could have been given back");
  for (const Retired& retired : retired_) {
    if (retired.packed && !retired.pinned && !retired.proven && DeviceOf(retired.context) == DeviceOf(context)) {
      Fail("refused although a synchronisation could have made a slab idle");
    }
  }
}

void SyncPoolOracle::Free(std::uint32_t choice) {
  if (live_.empty()) return;
  const std::size_t index = choice % live_.size();
  const Live freed = live_[index];
  live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(index));
  const FreeOutcome outcome = pool_.Free(freed.block.address);
  if (outcome.status != FreeStatus::kFreed) return Fail("a live block could not be freed");
  if (outcome.block.incarnation != freed.block.incarnation) Fail("another block was freed");
  retired_.push_back({.begin = freed.block.address,
                      .end = freed.block.address + freed.block.block_bytes,
                      .context = freed.block.context,
                      .freed_at = ++now_,
                      .packed = freed.block.packed,
                      .pinned = freed.pinned,
                      .exported = freed.exported});
}

void SyncPoolOracle::BadFree(std::uint32_t choice, std::uint32_t kind) {
  if (kind % 3 == 0 && !live_.empty()) {
    const PoolBlock& block = live_[choice % live_.size()].block;
    const DeviceAddress address = block.address + 1 + choice % block.bytes;
    const bool begins =
        std::any_of(live_.begin(), live_.end(), [&](const Live& l) { return l.block.address == address; });
    const bool inside = address < block.segment + block.segment_bytes;
    if (!begins && inside && pool_.Free(address).status != FreeStatus::kInvalid) Fail("an interior free was accepted");
  } else if (kind % 3 == 1 && !retired_.empty()) {
    const Retired& retired = retired_[choice % retired_.size()];
    if (pool_.Free(retired.begin).status != FreeStatus::kInvalid) Fail("a double free was accepted");
  } else if (pool_.Free(512 * std::uint64_t{choice}).status != FreeStatus::kNotOurs) {
    Fail("a foreign address was claimed");
  }
}

void SyncPoolOracle::SeeContext(ContextId context) {
  if (std::find(known_.begin(), known_.end(), context) != known_.end()) return;
  known_.push_back(context);
  pool_.ContextSeen(context);
}

void SyncPoolOracle::EndSynchronize(std::size_t index, bool success) {
  const Synchronisation ended = under_way_[index];
  under_way_.erase(under_way_.begin() + static_cast<std::ptrdiff_t>(index));
  pool_.EndSynchronize(ended.context, ended.ticket, success);
  if (success) completed_.push_back(ended);
  UpdateProven();
}

void SyncPoolOracle::DestroyContext(ContextId context) {
  memory_.DestroyContext(context);
  pool_.ContextDestroyed(context);
  std::erase(known_, context);
  std::erase_if(live_, [&](const Live& live) { return live.block.context == context; });
  std::erase_if(retired_, [&](const Retired& retired) { return retired.context == context; });
  std::erase_if(segments_, [&](const auto& entry) { return entry.second.context == context; });
  // Those under way stay: the program may still end them, and they must not count for a successor of the same handle.
  std::erase_if(completed_, [&](const Synchronisation& s) { return s.context == context; });
  for (Synchronisation& s : under_way_) {
    if (s.context == context) s.begun_at = 0;
  }
  UpdateProven();
}

void SyncPoolOracle::Watch(const FakeDeviceMemory::Call& call, bool after, DriverResult result) {
  static thread_local std::uint64_t begun_at = 0;
  switch (call.operation) {
    case FakeDeviceMemory::Operation::kSynchronize:
      if (!after) begun_at = ++now_;
      if (after && result.ok()) {
        completed_.push_back({call.context, 0, begun_at});
        UpdateProven();
      }
      return;
    case FakeDeviceMemory::Operation::kAllocate:
      if (!after || !result.ok()) return;
      for (const auto& [address, bytes] : memory_.Live()) {
        segments_.try_emplace(address, DriverSegment{bytes, call.context, false});
      }
      return;
    case FakeDeviceMemory::Operation::kFree:
      if (!after && pool_.Owns(call.address)) Fail("a segment is in the index while the driver frees it");
      if (after && result.ok()) SegmentGone(call.address);
      if (after && result == kDriverInvalidValue) Fail("freed what was not allocated");
      return;
  }
}

void SyncPoolOracle::SegmentGone(DeviceAddress address) {
  const auto segment = segments_.find(address);
  if (segment == segments_.end()) return Fail("freed an unknown segment");
  const DeviceAddress end = address + segment->second.bytes;
  for (const Live& live : live_) {
    if (Overlap(address, end, live.block.address, live.block.address + live.block.block_bytes)) {
      Fail("a segment with a live block was given back");
    }
  }
  std::erase_if(retired_, [&](const Retired& retired) {
    if (!Overlap(address, end, retired.begin, retired.end)) return false;
    if (retired.pinned) Fail("pinned memory was given back");
    if (retired.packed && !retired.proven) Fail("a slab with a block in quarantine was given back");
    return true;
  });
  segments_.erase(segment);
}

bool SyncPoolOracle::IsProven(const Retired& retired) const {
  const auto covered = [&](ContextId context) {
    return std::any_of(completed_.begin(), completed_.end(),
                       [&](const Synchronisation& s) { return s.context == context && s.begun_at > retired.freed_at; });
  };
  if (!covered(retired.context)) return false;
  return !peers_ || std::all_of(known_.begin(), known_.end(), covered);
}

void SyncPoolOracle::UpdateProven() {
  for (Retired& retired : retired_) retired.proven |= IsProven(retired);
}

void SyncPoolOracle::CheckStats() {
  const SyncPoolStats all = pool_.Stats();
  if (all.reserved != all.active + all.quarantined + all.ready + all.pinned + all.tail) Fail("the sum is wrong");
  if (all.reserved != memory_.LiveBytes()) Fail("reserved is not what the driver holds");
  if (all.segments != segments_.size()) Fail("segments is wrong");
  if (all.reserved_peak < all.reserved || all.active_peak < all.active) Fail("a peak is below the present");
  if (memory_.invalid_frees() != 0) Fail("the driver was asked to free what it had not allocated");
  if (all.lost_segments != 0) Fail("a segment was lost");
  for (const int device : {0, 1}) CheckDevice(device);
  for (const Live& live : live_) {
    const auto found = pool_.Find(live.block.address + live.block.bytes - 1);
    if (!found.has_value() || found->incarnation != live.block.incarnation) Fail("a live block can't be found");
  }
}

void SyncPoolOracle::CheckDevice(int device) {
  SyncPoolStats expected;
  for (const Live& live : live_) {
    if (live.block.device != device) continue;
    expected.active += live.block.block_bytes;
    expected.requested += live.block.bytes;
  }
  for (const Retired& retired : retired_) {
    if (DeviceOf(retired.context) != device) continue;
    const std::size_t bytes = retired.end - retired.begin;
    if (retired.pinned || (retired.exported && (retired.proven || !setup_.pool.quarantine))) {
      expected.pinned += bytes;
    } else if (!retired.proven && setup_.pool.quarantine) {
      expected.quarantined += bytes;
    }
  }
  std::size_t idle = 0;
  for (const auto& [address, segment] : segments_) {
    if (DeviceOf(segment.context) != device) continue;
    expected.reserved += segment.bytes;
    bool busy = false;
    for (const Live& live : live_) busy |= live.block.segment == address;
    for (const Retired& retired : retired_) {
      const bool inside = retired.begin >= address && retired.begin < address + segment.bytes;
      busy |= inside && (retired.pinned || (retired.packed && !retired.proven && setup_.pool.quarantine));
    }
    const std::size_t page = std::size_t{2} << 20;
    if (!busy) idle += segment.bytes > page / 2 ? (segment.bytes + page - 1) / page * page : segment.bytes;
  }
  const SyncPoolStats stats = pool_.Stats(device);
  if (stats.active != expected.active) Fail("active is wrong");
  if (stats.requested != expected.requested) Fail("requested is wrong");
  if (stats.reserved != expected.reserved) Fail("reserved of a device is wrong");
  if (stats.pinned != expected.pinned) Fail("pinned is wrong");
  // A segment that the driver refused to free waits anew, so at times more is in quarantine than must be.
  if (failures_possible_ ? stats.quarantined < expected.quarantined : stats.quarantined != expected.quarantined) {
    Fail("quarantined is wrong");
  }
  if (pool_.IdleBytes(device) != idle) Fail("idle bytes are wrong");
}

void SyncPoolOracle::Finish() {
  while (!live_.empty()) Free(0);
  for (const ContextId context : kContexts) {
    SeeContext(context);
    under_way_.push_back({context, pool_.BeginSynchronize(context), ++now_});
    EndSynchronize(under_way_.size() - 1, true);
  }
  CheckStats();
  std::size_t pinned_segments = 0;
  for (const auto& [address, segment] : segments_) {
    pinned_segments +=
        std::any_of(retired_.begin(), retired_.end(), [&, base = address, size = segment.bytes](const Retired& r) {
          return r.pinned && r.begin >= base && r.begin < base + size;
        });
  }
  // Failures may still be waiting for the calls to come.
  for (int i = 0; i < 8; ++i) pool_.ReleaseIdle();
  CheckStats();
  if (memory_.Live().size() != pinned_segments) Fail("memory is left over at the end");
}

}  // namespace cuheap
