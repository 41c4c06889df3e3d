#include "analysis/reports/what_if.h"

#include <algorithm>

namespace cuheap::analysis {

Life LifeOf(const Block& block) { return {block.allocated_at, block.freed_at, block.bytes}; }

void WhatIf::AsItWas(const Block& block, const Sink& sink) { sink(LifeOf(block)); }

WhatIf::WhatIf(const Blocks& blocks, const Categories& categories, const Scope& scope) : categories_(categories) {
  for (const Block& block : blocks.program) {
    if (!InScope(scope, block)) continue;
    in_scope_.push_back(&block);
    end_ = std::max<std::uint64_t>(end_, block.allocated_at + 1);
    if (block.freed_at != kNoPosition) end_ = std::max<std::uint64_t>(end_, block.freed_at + 1);
  }
  std::stable_sort(in_scope_.begin(), in_scope_.end(),
                   [](const Block* a, const Block* b) { return a->allocated_at < b->allocated_at; });
  actual_ = Replay(AsItWas);
}

WhatIfPeak WhatIf::Replay(const Plan& plan, std::uint64_t other) const {
  std::vector<std::int64_t> change(end_ + 1, 0);
  const Sink add = [&](const Life& life) {
    if (life.end <= life.begin) return;
    change[std::min(life.begin, end_)] += static_cast<std::int64_t>(life.bytes);
    if (life.end < end_) change[life.end] -= static_cast<std::int64_t>(life.bytes);
  };
  for (const Block* block : in_scope_) plan(*block, add);
  WhatIfPeak peak;
  std::int64_t live = 0;
  for (std::uint64_t position = 0; position < end_; ++position) {
    live += change[position];
    const auto bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(live, 0));
    if (position == other) peak.at_other = bytes;
    if (bytes > peak.bytes) peak.bytes = bytes, peak.at = position;
  }
  return peak;
}

WhatIf::ByCategory WhatIf::ComposeAt(std::uint64_t position, const Plan& plan) const {
  ByCategory bytes{};
  for (const Block* block : in_scope_) {
    std::uint64_t& sum = bytes[static_cast<std::size_t>(categories_.Of(*block).category)];
    plan(*block, [&](const Life& life) {
      if (life.begin <= position && position < life.end) sum += life.bytes;
    });
  }
  return bytes;
}

}  // namespace cuheap::analysis
