#include "analysis/reports/leak_joins.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

namespace cuheap::analysis {
namespace {

void Join(LeakFinding& into, const LeakFinding& other) {
  if (other.bytes_per_step > into.parts.front().bytes_per_step) into.line = other.line, into.stacks = other.stacks;
  into.parts.push_back(other.parts.front());
  SortParts(into);
  for (const auto sum :
       {&LeakFinding::blocks, &LeakFinding::bytes, &LeakFinding::reserved_bytes, &LeakFinding::before_window,
        &LeakFinding::line_allocations, &LeakFinding::line_frees, &LeakFinding::bytes_per_occurrence,
        &LeakFinding::freed_at_exit, &LeakFinding::freed_with_context})
    into.*sum += other.*sum;
  into.bytes_per_step += other.bytes_per_step;
  into.slope_bytes_per_step += other.slope_bytes_per_step;
}

bool Before(const LeakFinding& a, const LeakFinding& b, const LineTable& lines) {
  if (a.leak_class != b.leak_class) return a.leak_class < b.leak_class;
  if (a.bytes_per_step != b.bytes_per_step) return a.bytes_per_step > b.bytes_per_step;
  if (a.bytes != b.bytes) return a.bytes > b.bytes;
  if (a.scope != b.scope) return a.scope < b.scope;
  const std::string first = Describe(lines.line(a.line)), second = Describe(lines.line(b.line));
  return std::tie(first, a.line, a.shape, a.caller) < std::tie(second, b.line, b.shape, b.caller);
}

}  // namespace

void SortParts(LeakFinding& finding) {
  std::sort(finding.parts.begin(), finding.parts.end(), [](const LeakPart& a, const LeakPart& b) {
    return std::tuple(-a.bytes_per_step, b.bytes, a.line) < std::tuple(-b.bytes_per_step, a.bytes, b.line);
  });
}

void JoinGradients(std::vector<LeakFinding>& findings) {
  std::map<std::pair<Scope, std::vector<std::uint32_t>>, std::size_t> first;
  std::vector<LeakFinding> joined;
  for (LeakFinding& finding : findings) {
    if (finding.cause != LeakCause::kGradient) {
      joined.push_back(std::move(finding));
      continue;
    }
    finding.parts = {{finding.line, finding.blocks, finding.bytes, finding.bytes_per_step}};
    const auto [entry, added] = first.try_emplace({finding.scope, finding.steps}, joined.size());
    if (added)
      joined.push_back(std::move(finding));
    else
      Join(joined[entry->second], finding);
  }
  findings = std::move(joined);
}

void FindCompanions(std::vector<LeakFinding>& findings, const LineTable& lines) {
  for (LeakFinding& finding : findings) {
    const CodeLine& line = lines.line(finding.line);
    if (finding.leak_class != LeakClass::kLeak || line.function.empty() || finding.steps.empty()) continue;
    std::set<std::uint32_t> companions;
    for (const LeakFinding& other : findings) {
      const CodeLine& other_line = lines.line(other.line);
      if (other.leak_class == LeakClass::kLeak && other.line != finding.line && other.steps == finding.steps &&
          other_line.function == line.function && other_line.file == line.file) {
        companions.insert(other.line);
      }
    }
    finding.companions.assign(companions.begin(), companions.end());
  }
}

void SortFindings(std::vector<LeakFinding>& findings, const LineTable& lines) {
  std::sort(findings.begin(), findings.end(),
            [&](const LeakFinding& a, const LeakFinding& b) { return Before(a, b, lines); });
}

}  // namespace cuheap::analysis
