#include "analysis/reports/failures.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "interpose/journal/format.h"

namespace cuheap::analysis {
namespace {

constexpr std::uint64_t kMuchOutside = std::uint64_t{1} << 30;

bool HeldAt(const Block& block, std::uint64_t position, std::int64_t time_ns) {
  const bool allocated = block.allocated_at == 0 ? block.allocated_ns <= time_ns : block.allocated_at < position;
  return allocated && block.freed_at > position;
}

constexpr std::uint64_t kPage = std::uint64_t{2} << 20, kSmallUnit = 512;

std::uint64_t RoundUp(std::uint64_t bytes, std::uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

// See Note [What is charged].
std::uint64_t ChargedBytes(std::uint64_t bytes) {
  if (bytes == 0) return 0;
  return bytes > kPage / 2 ? RoundUp(bytes, kPage) : kPage / (kPage / RoundUp(bytes, kSmallUnit));
}

// What could be served from the segments, both by address: their bytes without live blocks and their rounding.
std::uint64_t IdleBytes(const std::vector<const Block*>& segments, const std::vector<const Block*>& served) {
  std::uint64_t idle = 0;
  auto block = served.begin();
  for (const Block* segment : segments) {
    const std::uint64_t end = segment->address + segment->bytes;
    std::uint64_t at = segment->address, least = 0;
    const auto count_gap = [&](std::uint64_t until) {
      if (until > at && until - at >= least) idle += until - at;
    };
    while (block != served.end() && (*block)->address < at) ++block;
    if (block != served.begin()) {  // a stream-ordered block may reach over several segments
      const Block& before = **std::prev(block);
      at = std::min(end, std::max(at, before.address + before.bytes));
      if (at != segment->address) least = std::min(before.bytes, kPage);
    }
    for (; block != served.end() && (*block)->address < end; ++block) {
      count_gap((*block)->address);
      at = std::max(at, (*block)->address + (*block)->bytes);
      least = std::min((*block)->bytes, kPage);
    }
    count_gap(end);
  }
  return idle;
}

// The figures of the device when event `i` failed.
OomFigures FiguresAt(const Snapshot& snapshot, const Blocks& blocks, std::size_t i, bool* free_known) {
  OomFigures figures;
  const std::uint32_t device = snapshot.events.device[i];
  const std::uint64_t position = i + 1;
  const std::int64_t now = snapshot.events.time_ns[i];
  std::uint64_t held = 0, reserved = 0, requested = 0;
  std::vector<const Block*> served, segments;
  figures.request = snapshot.events.bytes[i];
  for (const Block& block : blocks.program) {
    if (block.device != device || !Blocks::OnDevice(block.kind) || !HeldAt(block, position, now)) continue;
    figures.live += block.bytes;
    if (block.served) {
      served.push_back(&block);
      requested += block.bytes;
    } else {
      held += ChargedBytes(block.bytes);
    }
  }
  for (const Block& segment : blocks.segments) {
    if (segment.device != device || !HeldAt(segment, position, now)) continue;
    segments.push_back(&segment);
    reserved += ChargedBytes(segment.bytes);
  }
  const auto by_address = [](const Block* a, const Block* b) { return a->address < b->address; };
  std::sort(served.begin(), served.end(), by_address);
  std::sort(segments.begin(), segments.end(), by_address);
  held += std::max(reserved, requested);  // events that were lost may leave blocks without their segments
  figures.idle = std::min(IdleBytes(segments, served), held - std::min(held, figures.live));
  figures.rounding = held - std::min(held, figures.live + figures.idle);
  for (const Device& facts : snapshot.devices) {
    if (facts.ordinal != device) continue;
    figures.total = facts.total_bytes;
    *free_known = facts.driver_free_at_start != 0;
    if (*free_known) figures.free = facts.driver_free_at_start - std::min(facts.driver_free_at_start, held);
  }
  return figures;
}

// The failures of out of memory, by event: what the same thread does next tells.
std::unordered_map<std::size_t, FailureOutcome> OutcomesOf(const Events& events) {
  std::unordered_map<std::size_t, FailureOutcome> outcomes;
  std::unordered_map<std::uint32_t, std::vector<std::size_t>> open;  // by thread
  for (std::size_t i = 0; i < events.size(); ++i) {
    const bool refused = events.type[i] == EventType::kFrameworkOutOfMemory;
    if (events.type[i] == EventType::kAllocateFailed && events.result[i] == kOutOfMemoryResult &&
        !Blocks::OnHost(events.kind[i])) {
      open[events.thread[i]].push_back(i);
    } else if (refused || events.type[i] == EventType::kAllocate) {
      const auto found = open.find(events.thread[i]);
      if (found == open.end()) continue;
      // The second try is made elsewhere in the allocator: another stack, but as many bytes.
      const bool by_pytorch = refused || (events.flags[i] & journal::kCallerIsPyTorch) != 0;
      for (const std::size_t failed : found->second) {
        const bool same = events.device[failed] == events.device[i] && (refused || events.bytes[failed] == events.bytes[i]);
        if (by_pytorch && same)
          outcomes[failed] = refused ? FailureOutcome::kBehindFramework : FailureOutcome::kRecovered;
      }
      open.erase(found);
    }
  }
  return outcomes;
}

}  // namespace

std::uint64_t OomFigures::outside() const {
  const std::uint64_t known = free + live + idle + rounding;
  return total > known ? total - known : 0;
}

std::uint64_t OomFigures::needed() const { return RoundUp(request, kPage); }

OomVerdict JudgeOom(const OomFigures& figures) {
  const std::uint64_t needed = figures.needed();
  if (figures.free >= needed) return OomVerdict::kUnexplained;
  // Somebody else's memory explains it only if the request would have fitted there.
  if (figures.outside() > kMuchOutside && figures.outside() > figures.live &&
      figures.free + figures.idle + figures.outside() >= figures.request) {
    return OomVerdict::kOtherOwner;
  }
  if (figures.idle < figures.request && figures.free + figures.idle < needed) return OomVerdict::kCapacity;
  return OomVerdict::kIdleInPool;
}

std::vector<Failure> FindFailures(const Snapshot& snapshot, const Blocks& blocks, const LineTable& lines,
                                  const Steps& steps) {
  const Events& events = snapshot.events;
  const std::unordered_map<std::size_t, FailureOutcome> outcomes = OutcomesOf(events);
  std::map<std::tuple<Scope, std::uint32_t, std::uint16_t, FailureOutcome>, Failure> failures;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events.type[i] != EventType::kAllocateFailed) continue;
    const bool host = Blocks::OnHost(events.kind[i]);
    const Scope scope{host, host ? 0 : events.device[i]};
    const std::uint32_t line = lines.OfStack(events.stack[i]);
    const auto known = outcomes.find(i);
    const FailureOutcome outcome = known == outcomes.end() ? FailureOutcome::kTold : known->second;
    const auto [entry, added] = failures.try_emplace({scope, line, events.result[i], outcome});
    Failure& failure = entry->second;
    ++failure.count;
    failure.largest_request = std::max(failure.largest_request, events.bytes[i]);
    if (!added) continue;
    failure.scope = scope;
    failure.line = line;
    failure.stack = events.stack[i];
    failure.result = events.result[i];
    failure.first_ns = events.time_ns[i];
    failure.first_position = i + 1;
    failure.outcome = outcome;
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
    return std::tie(a.first_ns, a.scope, a.line, a.result, a.outcome) <
           std::tie(b.first_ns, b.scope, b.line, b.result, b.outcome);
  });
  return result;
}

}  // namespace cuheap::analysis
