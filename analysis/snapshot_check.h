// Whether a snapshot is consistent in itself: columns of equal length, every index in range, events in order of time.
#ifndef CUHEAP_ANALYSIS_SNAPSHOT_CHECK_H_
#define CUHEAP_ANALYSIS_SNAPSHOT_CHECK_H_

#include <optional>
#include <string>

#include "analysis/snapshot.h"

namespace cuheap::analysis {

struct Inconsistency {
  std::string place;  // "$.events.stack[17]", as in the JSON file
  std::string problem;
};

// The first inconsistency in order of the file, if there is one.
std::optional<Inconsistency> FindInconsistency(const Snapshot& snapshot);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_SNAPSHOT_CHECK_H_
