#include "analysis/exports/held.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "analysis/reports/report.h"

namespace cuheap::analysis {
namespace {

// Program memory of one device or of the host.
bool Counts(const Held& held, const Block& block) {
  if (held.host) return Blocks::OnHost(block.kind);
  return block.device == held.device && (Blocks::OnDevice(block.kind) || block.is_tensor());
}

// A point between two events: everything at positions up to `at` has happened.
struct Instant {
  std::uint64_t at = 0;
  std::int64_t time_ns = 0;
  std::uint64_t lost_bytes = 0;  // held then, as the recorder knows, beyond what the record shows
  bool nothing_known = false;    // lies before the events that were kept
};

bool HeldThen(const Block& block, const Instant& instant) {
  if (block.allocated_at > instant.at || block.freed_at <= instant.at) return false;
  return block.allocated_at != 0 || block.allocated_ns <= instant.time_ns;
}

class Collector {
 public:
  Collector(const Snapshot& snapshot, const Blocks& blocks) : snapshot_(snapshot), blocks_(blocks) {}

  std::vector<Held> Places() const {
    std::set<std::pair<bool, std::uint32_t>> places;
    std::set<std::uint32_t> with_tensors;
    for (const Device& device : snapshot_.devices) places.emplace(false, device.ordinal);
    for (const Block& block : blocks_.program) {
      if (Blocks::OnHost(block.kind)) places.emplace(true, 0);
      if (Blocks::OnDevice(block.kind) || block.is_tensor()) places.emplace(false, block.device);
      if (block.is_tensor()) with_tensors.insert(block.device);
    }
    std::vector<Held> result;
    for (const auto& [host, device] : places) {
      Held& held = result.emplace_back();
      held.host = host;
      held.device = device;
      held.tensors = !host && with_tensors.contains(device);
    }
    return result;
  }

  Instant PeakOf(const Held& held, bool of_tensors) const {
    std::vector<std::pair<std::uint64_t, const Block*>> changes;
    for (const Block& block : blocks_.program) {
      if (!Counts(held, block) || (!held.host && block.is_tensor() != of_tensors)) continue;
      changes.emplace_back(block.allocated_at, &block);
      if (block.freed_at != kNoPosition) changes.emplace_back(block.freed_at, &block);
    }
    std::sort(changes.begin(), changes.end(), [](const auto& a, const auto& b) {
      return std::tie(a.first, a.second->id) < std::tie(b.first, b.second->id);
    });
    Instant peak;
    std::uint64_t bytes = 0, most = 0;
    for (const auto& [at, block] : changes) {
      const bool allocation = at == block->allocated_at;
      bytes = allocation ? bytes + block->bytes : bytes - std::min(bytes, block->bytes);
      if (bytes <= most) continue;
      most = bytes;
      peak.at = at;
      peak.time_ns = std::max<std::int64_t>(0, allocation ? block->allocated_ns : block->freed_ns);
    }
    if (!held.host) CompareWithRecorder(held, of_tensors, most, peak);
    return peak;
  }

  Instant At(std::int64_t time_ns) const {
    const PackedColumn<std::int64_t>& times = snapshot_.events.time_ns;
    Instant instant;
    instant.at = static_cast<std::uint64_t>(std::upper_bound(times.begin(), times.end(), time_ns) - times.begin());
    instant.time_ns = time_ns;
    return instant;
  }

  Instant End() const {
    const Span span = ActiveSpan(snapshot_, blocks_);
    Instant instant;
    instant.time_ns = span.end_ns;
    return instant;
  }

  // is_held tells of a block; adds what was allocated at all.
  template <typename IsHeld>
  void Fill(Held& held, const Instant& instant, IsHeld is_held) const {
    std::map<std::tuple<std::uint32_t, AllocationKind, std::uint64_t>, HeldStack> stacks;
    std::uint64_t cache = 0, tensors = 0;
    held.time_ns = instant.time_ns;
    for (const Block& block : blocks_.program) {
      if (!Counts(held, block)) continue;
      const bool is = !instant.nothing_known && is_held(block);
      if (held.tensors && block.in_framework_cache()) {
        cache += is ? block.bytes : 0;
        continue;
      }
      if (is && block.is_tensor()) tensors += block.bytes;
      HeldStack& entry = stacks[{block.stack, block.kind, block.stream}];
      entry.bytes += is ? block.bytes : 0;
      entry.blocks += is ? 1 : 0;
      entry.allocated_bytes += block.allocated_at != 0 ? block.bytes : 0;
      entry.allocations += block.allocated_at != 0 ? 1 : 0;
    }
    for (auto& [key, entry] : stacks) {
      std::tie(entry.stack, entry.kind, entry.stream) = key;
      held.bytes += entry.bytes;
      held.stacks.push_back(entry);
    }
    AddRest(held, HeldPart::kIdleCache, cache > tensors ? cache - tensors : 0);
    AddRest(held, HeldPart::kLost, instant.lost_bytes);
  }

 private:
  static void AddRest(Held& held, HeldPart part, std::uint64_t bytes) {
    if (bytes == 0) return;
    HeldStack rest;
    rest.part = part;
    rest.bytes = bytes;
    held.stacks.push_back(rest);
    held.bytes += bytes;
  }

  // The recorder keeps every device's peak exactly, whatever became of the events.
  void CompareWithRecorder(const Held& held, bool of_tensors, std::uint64_t most, Instant& peak) const {
    for (const Device& device : snapshot_.devices) {
      if (device.ordinal != held.device) continue;
      const std::uint64_t bytes = of_tensors ? device.tensor_peak_bytes : device.peak_bytes;
      if (bytes <= most) return;
      const std::int64_t time_ns = of_tensors ? device.tensor_peak_ns : device.peak_ns;
      const PackedColumn<std::int64_t>& times = snapshot_.events.time_ns;
      peak = At(time_ns);
      peak.nothing_known = !snapshot_.completeness.events_complete() && !times.empty() && time_ns < times.front();
      std::uint64_t known = 0;
      for (const Block& block : blocks_.program) {
        if (Counts(held, block) && block.is_tensor() == of_tensors && !peak.nothing_known && HeldThen(block, peak))
          known += block.bytes;
      }
      peak.lost_bytes = bytes - std::min(bytes, known);
      return;
    }
  }

  const Snapshot& snapshot_;
  const Blocks& blocks_;
};

// The report's findings have their stacks; a finding's scope is a device, its tensors, or the host.
void FillLeaks(const Snapshot& snapshot, std::vector<Held>& places) {
  const Report report = MakeReport(snapshot);
  for (const LeakFinding& finding : report.findings) {
    if (finding.leak_class != LeakClass::kLeak) continue;
    for (Held& held : places) {
      if (held.host != finding.scope.host || (!held.host && held.device != finding.scope.device)) continue;
      for (const StackShare& share : finding.stacks) {
        HeldStack& entry = held.stacks.emplace_back();
        entry.stack = share.stack;
        entry.kind = finding.kind;
        entry.bytes = share.bytes;
        entry.blocks = share.blocks;
        held.bytes += share.bytes;
      }
    }
  }
}

}  // namespace

std::string NameOf(const Held& held) {
  if (held.host) return "host memory";
  if (held.device == kUnknownDevice) return "GPU of unknown number";
  return "GPU " + std::to_string(held.device);
}

std::string_view NameOf(HeldPart part) {
  switch (part) {
    case HeldPart::kBlocks:
      break;
    case HeldPart::kIdleCache:
      return "[PyTorch's cache, in no tensor]";
    case HeldPart::kLost:
      return "[no longer in the record]";
  }
  return "[no stack]";
}

std::vector<Held> HeldAt(const Snapshot& snapshot, const Blocks& blocks, const Moment& moment) {
  const Collector collector(snapshot, blocks);
  std::vector<Held> result = collector.Places();
  if (moment.kind == MomentKind::kLeaked) {
    FillLeaks(snapshot, result);
    return result;
  }
  for (Held& held : result) {
    if (moment.kind == MomentKind::kEnd) {
      collector.Fill(held, collector.End(), [](const Block& block) { return block.live; });
      continue;
    }
    const bool of_tensors = moment.kind == MomentKind::kPeak && held.tensors;
    const Instant instant =
        moment.kind == MomentKind::kTime ? collector.At(moment.time_ns) : collector.PeakOf(held, of_tensors);
    collector.Fill(held, instant, [&](const Block& block) { return HeldThen(block, instant); });
  }
  return result;
}

void AddHeldNotes(const Snapshot& snapshot, const Blocks& blocks, const Moment& moment, const std::vector<Held>& places,
                  std::vector<std::string>& notes) {
  std::uint64_t bytes = 0, lost = 0;
  for (const Held& held : places) {
    bytes += held.bytes;
    for (const HeldStack& entry : held.stacks) lost += entry.part == HeldPart::kLost ? entry.bytes : 0;
  }
  if (bytes == 0) {
    notes.push_back(moment.kind == MomentKind::kLeaked
                        ? "the report finds no leaks: the file has no stacks (--at end tells what was held at the end)"
                        : "nothing was held " + Describe(moment) + ": the file has no stacks");
  }
  if (lost != 0) {
    notes.push_back("of " + std::to_string(lost) + " bytes held " + Describe(moment) +
                    " the stacks are lost, since their events were overwritten (cuheap run --event-memory keeps more)");
  }
  if (moment.kind == MomentKind::kTime && blocks.window_begin_ns != kBeforeWindow &&
      moment.time_ns < blocks.window_begin_ns) {
    const Moment first{MomentKind::kTime, blocks.window_begin_ns};
    notes.push_back("the oldest event that was kept is " + Describe(first) +
                    ": of the time before, only what lived longer is told, and when it began may not be known");
  }
  if (moment.kind != MomentKind::kTime && moment.kind != MomentKind::kEnd && snapshot.events.size() == 0 && bytes != 0)
    notes.emplace_back(
        "the snapshot has no events, so that the peak is only known to be at least what was held at the end");
}

}  // namespace cuheap::analysis
