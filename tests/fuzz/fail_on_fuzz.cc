// Fuzzes what is written behind --fail-on and --threshold. What is understood stays the same when it is written again
// as it was understood, and judges without a crash; what is not gets its one line.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>

#include "analysis/reports/fail_on.h"

using cuheap::analysis::Diff;
using cuheap::analysis::FailCondition;
using cuheap::analysis::JudgeConditions;
using cuheap::analysis::Judgement;
using cuheap::analysis::ParseFailOn;
using cuheap::analysis::ParseThreshold;
using cuheap::analysis::ScopeDiff;
using cuheap::analysis::Threshold;

namespace {

void Require(bool holds) {
  if (!holds) std::abort();
}

// Values at the ends of what a snapshot can hold.
Diff Extremes() {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  Diff diff;
  diff.leak_count = {0, kMost};
  diff.leaked_bytes = {kMost, 0};
  ScopeDiff device;
  device.peak_bytes = {1, kMost};
  device.live_bytes = {kMost, kMost};
  device.allocations = {kMost, kMost};
  diff.scopes = {device, device};
  return diff;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::string problem;
  if (const auto conditions = ParseFailOn(text, &problem)) {
    Require(!conditions->empty());
    for (const FailCondition& condition : *conditions) {
      Require(std::isfinite(condition.amount) && condition.amount >= 0);
      const auto again = ParseFailOn(condition.text, &problem);
      Require(again && again->size() == 1);
      const FailCondition& other = again->front();
      Require(other.text == condition.text && other.figure == condition.figure && other.bound == condition.bound &&
              other.amount == condition.amount && other.or_equal == condition.or_equal);
    }
    static const Diff diff = Extremes();
    for (const Judgement& judgement : JudgeConditions(diff, *conditions))
      Require(judgement.text.starts_with(judgement.condition.text + ": "));
  } else {
    Require(problem.size() < 600 && problem.find("write FIGURE>BOUND") != std::string::npos);
  }
  problem.clear();
  Threshold threshold;
  const bool understood = ParseThreshold(text, &threshold, &problem);
  Require(understood == problem.empty());
  Require(threshold.share >= 0 && threshold.share <= 1);
  return 0;
}
