// What the report cannot know: losses of this run, holes that were met, and what this version does not track at all.
#ifndef CUHEAP_ANALYSIS_REPORTS_NOT_OBSERVED_H_
#define CUHEAP_ANALYSIS_REPORTS_NOT_OBSERVED_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/reports/lines.h"
#include "analysis/snapshot.h"

namespace cuheap::analysis {

enum class ObservationKind : std::uint8_t {
  kLoss,    // something of this run was lost: figures may be wrong, the text says which
  kUnseen,  // a library, or all of the process, reached the driver without us: leaks there are not known
  kHole,    // something was met that is not tracked, or was decided: the text says what follows
  kLimit,   // holds for every run of this version
};

struct NotObserved {
  ObservationKind kind = ObservationKind::kLimit;
  std::string code;  // stable word for scripts
  std::string text;  // one sentence
};

// Losses first, then what was not seen at all, then holes, then limits; each in a fixed order. `tensors_missing`: some
// memory was asked for by PyTorch's allocator, so that the limits that concern it apply.
std::vector<NotObserved> ListNotObserved(const Snapshot& snapshot, const LineTable& lines, bool tensors_missing);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_NOT_OBSERVED_H_
