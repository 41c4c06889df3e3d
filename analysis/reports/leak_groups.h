// Blocks that are judged together: those of one line, or of one use of it.
#ifndef CUHEAP_ANALYSIS_REPORTS_LEAK_GROUPS_H_
#define CUHEAP_ANALYSIS_REPORTS_LEAK_GROUPS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/reports/blocks.h"
#include "analysis/reports/framework_frames.h"
#include "analysis/reports/lines.h"
#include "analysis/reports/totals.h"

namespace cuheap::analysis {

// All blocks of one line in one scope and from one allocator, by time of allocation.
struct BlockGroup {
  Scope scope;
  std::uint32_t line = 0, caller = 0;
  bool from_pytorch = false;
  bool backward = false;  // made by backward passes: a line of the forward pass may be known for them
  std::string library;
  std::vector<const Block*> all;
};

std::vector<BlockGroup> GroupBlocks(const Blocks& blocks, const LineTable& lines, const FrameworkStacks& stacks);

// The group's facts, without its blocks.
BlockGroup Without(const BlockGroup& group);

// The group by the first calling lines that tell its stacks apart; empty if there are none.
std::vector<BlockGroup> PartByCaller(const BlockGroup& group, const LineTable& lines);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_LEAK_GROUPS_H_
