// Memory over time by stack and category, thinned out so that a page can hold it.
//
// Note [Instants]
// A run of millions of events is cut into some thousand pieces, half of them of equal time and half of equal numbers of
// events, so that neither idle hours nor short bursts get lost. Of each piece the one instant is kept at which most was
// in use: its state is exact, the sum over all groups included, and so the highest instant of all is the peak itself.
// The last state, the last allocation and the refusals are instants as well. Nothing is averaged.
//
// Note [Small groups]
// Stacks whose memory never mattered are taken together, one group a category: kOtherStacks. The sums stay exact.
#ifndef CUHEAP_ANALYSIS_HTML_MEMORY_HISTORY_H_
#define CUHEAP_ANALYSIS_HTML_MEMORY_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analysis/reports/blocks.h"
#include "analysis/reports/report.h"
#include "analysis/snapshot.h"

namespace cuheap::analysis {

enum class GroupPart : std::uint8_t {
  kStack,        // blocks that one stack allocated
  kOtherStacks,  // see Note [Small groups]
  kIdleCache,    // what a framework's cache holds beyond its tensors
};

struct MemoryGroup {
  GroupPart part = GroupPart::kStack;
  std::uint32_t stack = 0;
  std::uint32_t category = 0;
  friend auto operator<=>(const MemoryGroup&, const MemoryGroup&) = default;
};

struct GroupChange {
  std::uint32_t instant = 0;  // from this one on ...
  std::uint64_t bytes = 0;    // ... the group holds so much
};

struct NamedInstant {
  std::string name;  // "peak", "last allocation", "end", "refused 1"
  std::uint32_t instant = 0;
};

// One device, or the host's memory that is pinned for CUDA.
struct MemoryHistory {
  bool host = false;
  std::uint32_t device = 0;
  bool tensors = false;  // a framework reported what it hands out here: its segments count only as kIdleCache
  std::vector<std::int64_t> time_ns;    // of the instants, ascending
  std::vector<std::uint64_t> position;  // see blocks.h: what happened up to this event
  std::vector<NamedInstant> named;      // in the order of time
  std::vector<MemoryGroup> groups;
  std::vector<std::vector<GroupChange>> changes;  // of each group, by instant; before the first it holds nothing
};

struct HistoryLimits {
  std::size_t instants = 2400;
  std::size_t groups = 600;
  std::size_t changes = 220'000;  // of all groups: with more, there are fewer instants
};

// category: of every block of blocks.program. Devices first, by ordinal; places without a block are left out.
std::vector<MemoryHistory> TellMemoryHistory(const Report& report, const Blocks& blocks,
                                             const std::vector<std::uint8_t>& category,
                                             const HistoryLimits& limits = {});

// Whether a block was held once everything up to a position had happened. What exit handlers freed counts as held to
// the end.
bool HeldAfter(const Block& block, std::uint64_t position);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_HTML_MEMORY_HISTORY_H_
