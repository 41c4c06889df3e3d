// Which steps a line's blocks are counted in, if any.
#ifndef CUHEAP_ANALYSIS_REPORTS_CLOCK_CHOICE_H_
#define CUHEAP_ANALYSIS_REPORTS_CLOCK_CHOICE_H_

#include <cstdint>
#include <map>
#include <vector>

#include "analysis/reports/blocks.h"
#include "analysis/reports/steps.h"

namespace cuheap::analysis {

// Note [What a clock covers]
// Steps may end long before the run does: a warm-up that synchronises, then a loop that does not; worker threads that
// go on after the main thread's loop. All that comes after the last boundary would count as one step, and a leak there
// as something that happened once. So a clock whose end is open (a fifth of the run's allocations, or a fifth of the
// time in which it allocates, lies after its last boundary) says nothing about a line with a good share of its blocks
// there, unless they came in one go, as a result that is kept. Before the first boundary lies the set-up, which is
// meant to be one step; only a loop that nearly fills the run and adds blocks of one size is no set-up.
class ClockChoice {
 public:
  // Both must outlive it.
  ClockChoice(const Blocks& blocks, const StepClocks& clocks);

  // Blocks, by time of allocation, of a line that `thread` allocates most of: the thread's steps, else the run's, else
  // null: no steps cover them.
  const Steps* Of(std::uint32_t thread, const std::vector<const Block*>& blocks) const;
  // Much was still allocated after the last step: then that is not where the run ends.
  bool OpenEnd(const Steps& steps) const { return PartOf(steps).open_end; }

 private:
  struct Part {
    bool open_begin = false, open_end = false;
    std::int64_t begin_ns = 0, end_ns = 0;           // of the time in which the run allocates
    std::uint64_t head_blocks = 0, tail_blocks = 0;  // allocations before the first boundary and after the last
  };
  Part Measure(const Steps& steps, const std::vector<std::int64_t>& times_ns) const;
  const Part& PartOf(const Steps& steps) const { return parts_.at(&steps); }
  bool Covers(const Steps& steps, const std::vector<const Block*>& blocks) const;

  const StepClocks& clocks_;
  std::map<const Steps*, Part> parts_;
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_CLOCK_CHOICE_H_
