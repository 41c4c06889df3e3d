// Conditions on a comparison, for CI: `peak>+5%`, `leaks>0`.
//
//   CONDITIONS = CONDITION { "," CONDITION }
//   CONDITION  = FIGURE ( ">" | ">=" ) BOUND              spaces around each part are allowed
//   BOUND      = AMOUNT                                   of the figure after
//              | "+" AMOUNT                               of its growth from before to after
//              | "+" NUMBER "%"                           of its growth, in percent of before; from 0 any growth
//              exceeds it
//   AMOUNT     = NUMBER [ "B" | "KiB" | "MiB" | "GiB" ]   units for figures in bytes only
//   NUMBER     = up to 15 digits, and up to 6 more behind a point
#ifndef CUHEAP_ANALYSIS_REPORTS_FAIL_ON_H_
#define CUHEAP_ANALYSIS_REPORTS_FAIL_ON_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/reports/diff.h"

namespace cuheap::analysis {

enum class Figure : std::uint8_t {
  kPeak,        // most bytes held at once of a device; met if any device meets it
  kLive,        // bytes held at the end
  kTensorPeak,  // the same of the tensors that a framework handed out
  kTensorLive,
  kHostPeak,  // the same of host memory pinned for CUDA
  kHostLive,
  kReserved,     // most bytes that the pool or a framework's cache held from the driver; met if any does
  kAllocations,  // number, of all memory
  kLeaks,        // number of findings
  kLeakBytes,    // in all
};
bool InBytes(Figure figure);
std::string_view FigureName(Figure figure);  // as it is written: "tensor-peak"

enum class BoundKind : std::uint8_t { kValue, kGrowth, kGrowthPercent };

struct FailCondition {
  Figure figure = Figure::kPeak;
  bool or_equal = false;
  BoundKind bound = BoundKind::kValue;
  double amount = 0;  // bytes, a number, or percent
  std::string text;   // as it was written, without spaces
};

// One line: what can be written.
inline constexpr std::string_view kFailOnGrammar =
    "write FIGURE>BOUND or FIGURE>=BOUND, several with commas between; FIGURE: peak, live, tensor-peak, tensor-live, "
    "host-peak, host-live, reserved, allocations, leaks, leak-bytes; BOUND: 2GiB or 100 (the value after), +64MiB "
    "(growth), "
    "+5% (growth in percent)";

// nullopt: *problem says which part is wrong and how it is written, in one line.
std::optional<std::vector<FailCondition>> ParseFailOn(std::string_view text, std::string* problem);

struct Judgement {
  FailCondition condition;
  bool known = true;  // false: an event is missing that would be needed, see Diff::limits
  bool met = false;
  std::string where;  // "device 0", empty: of the whole run
  BeforeAfter value;  // of the place that exceeds most
  // "peak>+5%: device 0 from 45.0 MiB to 60.0 MiB, +33.3 %"
  std::string text;
};

// In the order of the conditions.
std::vector<Judgement> JudgeConditions(const Diff& diff, const std::vector<FailCondition>& conditions);

// "64KiB", "2%", "0" or two with a comma between: what counts as small. Unnamed parts keep their value; "0" sets all to
// nothing. False: *problem says how it is written.
bool ParseThreshold(std::string_view text, Threshold* threshold, std::string* problem);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_FAIL_ON_H_
