// How long a block lives, in terms of the program's steps.
#ifndef CUHEAP_ANALYSIS_REPORTS_LIFETIMES_H_
#define CUHEAP_ANALYSIS_REPORTS_LIFETIMES_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "analysis/reports/blocks.h"
#include "analysis/reports/steps.h"

namespace cuheap::analysis {

// Note [Lifetimes]
// Steps are those of the thread that allocated (see steps.h); step 1 includes the set-up, and so does what was
// allocated before the record began. Held to the end is what was never freed, or only when the last step or the process
// was over. Short-lived is what fewer than 16 other allocations or frees of the process happen to: the temporaries of
// an operation, however long a step is. Without steps, the first tenth of the record's events stands for the set-up,
// and what is freed later than that is told as one.
enum class Lifetime : std::uint8_t {
  kWholeRun,     // from the set-up to the end: weights
  kToTheEnd,     // made later, held to the end: what grows, the last step's results
  kAcrossSteps,  // freed in a later step than it was made in
  kWithinStep,   // made and freed in one step
  kShort,        // short-lived
  kFreed,        // no steps are known: freed before the end, not short-lived
};
inline constexpr std::size_t kLifetimes = 6;

std::string_view Word(Lifetime lifetime);    // "whole_run"
std::string_view Phrase(Lifetime lifetime);  // "the whole run, from the set-up to the end"

class Lifetimes {
 public:
  // Both must outlive it.
  Lifetimes(const Blocks& blocks, const StepClocks& clocks);
  Lifetime Of(const Block& block) const;

 private:
  const StepClocks& clocks_;
  std::uint64_t last_at_ = 0;  // position of the last event
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_LIFETIMES_H_
