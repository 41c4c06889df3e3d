// The memory of a run as it would have been, had blocks been smaller, or lived shorter or elsewhere: the trace is
// replayed with them changed, and the new peak is where it then is.
//
// Note [What if]
// A remedy's worth is not what it takes away at the old peak, since the peak moves: without activations the optimizer's
// step is the highest. So each remedy says, for every block, what would have been there instead (nothing, a smaller
// block, one that is freed earlier, two), and all of them are counted again from the first to the last.
//
// Moments are positions (blocks.h). What is freed at one is gone before what is allocated there comes, whatever their
// order in the list, so that "freed at p" and "allocated at p" never count together.
#ifndef CUHEAP_ANALYSIS_REPORTS_WHAT_IF_H_
#define CUHEAP_ANALYSIS_REPORTS_WHAT_IF_H_

#include <array>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "analysis/reports/blocks.h"
#include "analysis/reports/categories.h"
#include "analysis/reports/totals.h"

namespace cuheap::analysis {

// From `begin` until `end`, which is no part of it.
struct Life {
  std::uint64_t begin = 0, end = kNoPosition;
  std::uint64_t bytes = 0;
};
Life LifeOf(const Block& block);

struct WhatIfPeak {
  std::uint64_t bytes = 0;
  std::uint64_t at = 0;        // position
  std::uint64_t at_other = 0;  // bytes live at the position that was asked for
};

class WhatIf {
 public:
  // What would have been there in place of a block: takes lives of its own accord, none if nothing would.
  using Sink = std::function<void(const Life&)>;
  using Plan = std::function<void(const Block&, const Sink&)>;
  using ByCategory = std::array<std::uint64_t, kCategories>;

  // Of blocks in `scope`. blocks and categories must outlive it.
  WhatIf(const Blocks& blocks, const Categories& categories, const Scope& scope);

  // `other`: a position at which the bytes are told as well.
  WhatIfPeak Replay(const Plan& plan, std::uint64_t other = 0) const;
  // As the run was.
  const WhatIfPeak& actual() const { return actual_; }
  // What is live at a position, by the category of the blocks.
  ByCategory ComposeAt(std::uint64_t position, const Plan& plan) const;

  const std::vector<const Block*>& blocks() const { return in_scope_; }  // by position
  static void AsItWas(const Block& block, const Sink& sink);

 private:
  const Categories& categories_;
  std::vector<const Block*> in_scope_;
  std::uint64_t end_ = 0;  // after the last position
  WhatIfPeak actual_;
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_WHAT_IF_H_
