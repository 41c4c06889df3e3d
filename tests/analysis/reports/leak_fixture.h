// What the tests of leaks share: a synthetic program and the reports of it.
#ifndef CUHEAP_TESTS_ANALYSIS_REPORTS_LEAK_FIXTURE_H_
#define CUHEAP_TESTS_ANALYSIS_REPORTS_LEAK_FIXTURE_H_

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

#include "analysis/reports/leaks.h"
#include "analysis/reports/report.h"
#include "tests/analysis/reports/synthetic.h"

namespace cuheap::analysis {

class LeakFixture : public testing::Test {
 protected:
  static constexpr std::uint64_t kMiB = 1 << 20;

  // The report of what the program did so far.
  const Report& Now() {
    snapshots_.push_back(program_.Snapshot());
    reports_.push_back(MakeReport(snapshots_.back()));
    return reports_.back();
  }
  static std::vector<const LeakFinding*> Of(const Report& report, LeakClass wanted) {
    std::vector<const LeakFinding*> result;
    for (const LeakFinding& finding : report.findings) {
      if (finding.leak_class == wanted) result.push_back(&finding);
    }
    return result;
  }
  static std::string LineOf(const Report& report, const LeakFinding& finding) {
    return Describe(report.lines.line(finding.line));
  }

  SyntheticProgram program_;
  std::uint32_t step_end_ = program_.Line("train.cc", 90, "Step");
  std::deque<Snapshot> snapshots_;
  std::deque<Report> reports_;
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_TESTS_ANALYSIS_REPORTS_LEAK_FIXTURE_H_
