#include "analysis/reports/lifetimes.h"

#include <algorithm>
#include <array>

namespace cuheap::analysis {
namespace {

constexpr std::uint64_t kShortLife = 16;  // events
constexpr std::uint64_t kSetUpPart = 10;  // without steps: the first tenth

}  // namespace

std::string_view Word(Lifetime lifetime) {
  constexpr std::array<std::string_view, kLifetimes> kWords = {"whole_run",   "to_the_end",  "across_steps",
                                                               "within_step", "short_lived", "freed"};
  return kWords.at(static_cast<std::size_t>(lifetime));
}

std::string_view Phrase(Lifetime lifetime) {
  constexpr std::array<std::string_view, kLifetimes> kPhrases = {
      "the whole run, from the set-up to the end", "made later, held to the end",
      "across steps, freed in a later one",        "within a step",
      "short-lived: freed within a few calls",     "freed before the end (no steps are known)"};
  return kPhrases.at(static_cast<std::size_t>(lifetime));
}

Lifetimes::Lifetimes(const Blocks& blocks, const StepClocks& clocks) : clocks_(clocks) {
  for (const Block& block : blocks.program) {
    last_at_ = std::max(last_at_, block.allocated_at);
    if (block.freed_at != kNoPosition) last_at_ = std::max(last_at_, block.freed_at);
  }
}

Lifetime Lifetimes::Of(const Block& block) const {
  const Steps& steps = clocks_.Of(block.thread);
  const std::uint32_t made = block.allocated_ns == kBeforeWindow ? 1 : steps.StepOf(block.allocated_ns);
  const bool has_steps = steps.count() != 0;
  const bool over =
      has_steps && !block.never_freed() && made <= steps.count() && steps.StepOf(block.freed_ns) > steps.count();
  if (block.never_freed() || block.freed_at_shutdown || over) {
    const bool set_up = has_steps ? made <= 1 : block.allocated_at <= last_at_ / kSetUpPart;
    return set_up ? Lifetime::kWholeRun : Lifetime::kToTheEnd;
  }
  if (has_steps && steps.StepOf(block.freed_ns) != made) return Lifetime::kAcrossSteps;
  if (block.allocated_at != 0 && block.freed_at - block.allocated_at <= kShortLife) return Lifetime::kShort;
  return has_steps ? Lifetime::kWithinStep : Lifetime::kFreed;
}

}  // namespace cuheap::analysis
