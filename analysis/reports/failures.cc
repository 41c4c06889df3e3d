#include "analysis/reports/failures.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace cuheap::analysis {
namespace {

constexpr std::uint64_t kMuchOutside = std::uint64_t{1} << 30;

bool HeldAt(const Block& block, std::uint64_t position, std::int64_t time_ns) {
  const bool allocated = block.allocated_at == 0 ? block.allocated_ns <= time_ns : block.allocated_at < position;
  return allocated && block.freed_at > position;
}

// The figures of the device when event `i` failed.
OomFigures FiguresAt(const Snapshot& snapshot, const Blocks& blocks, std::size_t i, bool* free_known) {
  OomFigures figures;
  const std::uint32_t device = snapshot.events.device[i];
  const std::uint64_t position = i + 1;
  const std::int64_t now = snapshot.events.time_ns[i];
  std::uint64_t segments = 0, served = 0, served_requested = 0;
  figures.request = snapshot.events.bytes[i];
  for (const Block& block : blocks.program) {
    if (block.device != device || !Blocks::OnDevice(block.kind) || !HeldAt(block, position, now)) continue;
    figures.live += block.bytes;
    if (!block.served) continue;
    served += block.reserved_bytes;
    served_requested += block.bytes;
  }
  for (const Block& segment : blocks.segments) {
    if (segment.device == device && HeldAt(segment, position, now)) segments += segment.bytes;
  }
  figures.idle = segments - std::min(segments, served);
  for (const Device& facts : snapshot.devices) {
    if (facts.ordinal != device) continue;
    figures.total = facts.total_bytes;
    // Served blocks lie in segments, rounding included.
    const std::uint64_t held = figures.live - served_requested + std::max(segments, served_requested);
    *free_known = facts.driver_free_at_start != 0;
    if (*free_known) figures.free = facts.driver_free_at_start - std::min(facts.driver_free_at_start, held);
  }
  return figures;
}

}  // namespace

std::uint64_t OomFigures::outside() const {
  const std::uint64_t known = free + live + idle;
  return total > known ? total - known : 0;
}

OomVerdict JudgeOom(const OomFigures& figures) {
  if (figures.free >= figures.request) return OomVerdict::kUnexplained;
  // Somebody else's memory explains it only if the request would have fitted there.
  if (figures.outside() > kMuchOutside && figures.outside() > figures.live &&
      figures.free + figures.idle + figures.outside() >= figures.request) {
    return OomVerdict::kOtherOwner;
  }
  if (figures.free + figures.idle < figures.request) return OomVerdict::kCapacity;
  return OomVerdict::kIdleInPool;
}

std::vector<Failure> FindFailures(const Snapshot& snapshot, const Blocks& blocks, const LineTable& lines,
                                  const Steps& steps) {
  const Events& events = snapshot.events;
  std::map<std::tuple<Scope, std::uint32_t, std::uint16_t>, Failure> failures;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events.type[i] != EventType::kAllocateFailed) continue;
    const bool host = Blocks::OnHost(events.kind[i]);
    const Scope scope{host, host ? 0 : events.device[i]};
    const std::uint32_t line = lines.OfStack(events.stack[i]);
    const auto [entry, added] = failures.try_emplace({scope, line, events.result[i]});
    Failure& failure = entry->second;
    ++failure.count;
    failure.largest_request = std::max(failure.largest_request, events.bytes[i]);
    if (!added) continue;
    failure.scope = scope;
    failure.line = line;
    failure.stack = events.stack[i];
    failure.result = events.result[i];
    failure.first_ns = events.time_ns[i];
    failure.first_step = steps.StepOf(events.time_ns[i]);
    failure.figures.request = events.bytes[i];
    if (failure.result != kOutOfMemoryResult || host) continue;
    failure.figures = FiguresAt(snapshot, blocks, i, &failure.free_known);
    if (failure.free_known && failure.figures.total != 0) failure.verdict = JudgeOom(failure.figures);
  }
  std::vector<Failure> result;
  result.reserve(failures.size());
  for (const auto& [key, failure] : failures) result.push_back(failure);
  std::sort(result.begin(), result.end(), [](const Failure& a, const Failure& b) {
    return std::tie(a.first_ns, a.scope, a.line, a.result) < std::tie(b.first_ns, b.scope, b.line, b.result);
  });
  return result;
}

}  // namespace cuheap::analysis
