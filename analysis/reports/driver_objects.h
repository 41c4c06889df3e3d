// Objects of the driver that hold memory which no call shows: how many were created and how many destroyed.
#ifndef CUHEAP_ANALYSIS_REPORTS_DRIVER_OBJECTS_H_
#define CUHEAP_ANALYSIS_REPORTS_DRIVER_OBJECTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/reports/steps.h"
#include "analysis/snapshot.h"

namespace cuheap::analysis {

struct DriverObjects {
  std::string kind;  // "events", "streams"
  std::uint64_t created = 0, destroyed = 0;
  double left_per_step = 0;  // 0: no steps
  bool piling_up = false;    // most of a great many were never destroyed
  std::uint64_t left() const { return created > destroyed ? created - destroyed : 0; }
};

// Kinds that the recorder counted, by name. Those of libraries in the process count as well.
std::vector<DriverObjects> CountDriverObjects(const Snapshot& snapshot, const Steps& steps);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_DRIVER_OBJECTS_H_
