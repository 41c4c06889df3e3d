#include "analysis/reports/companions.h"

#include <algorithm>
#include <tuple>

namespace cuheap::analysis {
namespace {

bool AreCompanions(const LeakFinding& a, const LeakFinding& b) {
  return a.leak_class == LeakClass::kLeak && b.leak_class == LeakClass::kLeak && a.scope == b.scope &&
         a.steps == b.steps && a.caller == b.caller &&
         std::find(a.companions.begin(), a.companions.end(), b.line) != a.companions.end();
}

}  // namespace

bool ToldBefore(const Report& report, std::size_t finding) {
  const auto end = report.findings.begin() + static_cast<std::ptrdiff_t>(finding);
  return std::any_of(report.findings.begin(), end,
                     [&](const LeakFinding& earlier) { return AreCompanions(earlier, report.findings[finding]); });
}

LeakFinding WithCompanions(const Report& report, const LeakFinding& finding) {
  LeakFinding sum = finding;
  if (!finding.parts.empty()) return sum;
  sum.parts.push_back({finding.line, finding.blocks, finding.bytes});
  for (const LeakFinding& other : report.findings) {
    if (!AreCompanions(finding, other)) continue;
    sum.parts.push_back({other.line, other.blocks, other.bytes});
    for (const auto figure :
         {&LeakFinding::blocks, &LeakFinding::bytes, &LeakFinding::reserved_bytes, &LeakFinding::before_window,
          &LeakFinding::bytes_per_occurrence, &LeakFinding::line_allocations, &LeakFinding::line_frees,
          &LeakFinding::freed_at_exit, &LeakFinding::freed_with_context})
      sum.*figure += other.*figure;
    sum.bytes_per_step += other.bytes_per_step;
  }
  if (sum.parts.size() == 1) return finding;
  std::sort(sum.parts.begin(), sum.parts.end(),
            [](const LeakPart& a, const LeakPart& b) { return std::tie(b.bytes, a.line) < std::tie(a.bytes, b.line); });
  return sum;
}

}  // namespace cuheap::analysis
