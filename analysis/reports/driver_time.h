// Time spent in calls of the driver for memory: allocation, pinning, and frees and waits that hold the program up until
// the device is idle ("hidden synchronisations").
//
// Sums and counts are the recorder's, of every call. Which lines they belong to is known of the calls that took 0.1 ms
// or more, whose events were kept.
#ifndef CUHEAP_ANALYSIS_REPORTS_DRIVER_TIME_H_
#define CUHEAP_ANALYSIS_REPORTS_DRIVER_TIME_H_

#include <cstdint>
#include <vector>

#include "analysis/reports/lines.h"
#include "analysis/snapshot.h"

namespace cuheap::analysis {

struct DriverLine {
  std::uint32_t line = 0;  // index into the LineTable
  std::uint64_t calls = 0, total_ns = 0, longest_ns = 0;
};

struct DriverCallUse {
  DriverCall call = DriverCall::kAllocate;
  std::uint64_t count = 0, total_ns = 0, longest_ns = 0;
  std::vector<DriverLine> lines;  // of slow calls, most time first
};

struct DriverUse {
  bool known = false;                // the recorder took the time
  std::vector<DriverCallUse> calls;  // that were made, most time first
  std::uint64_t total_ns = 0;        // of all threads together
  double share = 0;                  // of the run's time
  bool matters() const { return share >= 0.01; }
  const DriverCallUse* of(DriverCall call) const;  // null: none was made
};

DriverUse MeasureDriverTime(const Snapshot& snapshot, const LineTable& lines);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_DRIVER_TIME_H_
