// The trace event format of Chrome, which Perfetto opens as well: counters of memory for each device, an async slice
// for each block, instants for steps and failures. Format: "Trace Event Format" (catapult); times in µs since the
// start.
//
// A device is a process of the trace, the host another. Counters add up: "tensors" + "cache, in no tensor" + "program"
// is what is held on the device. There are at most some 100,000 points: of neighbours the highest stays, so that peaks
// are exact. Only the largest blocks get slices (ExportRequest::drawn_blocks); what is left out is told.
#ifndef CUHEAP_ANALYSIS_EXPORTS_CHROME_TRACE_H_
#define CUHEAP_ANALYSIS_EXPORTS_CHROME_TRACE_H_

#include <string>
#include <vector>

#include "analysis/exports/exporter.h"

namespace cuheap::analysis {

class ChromeTrace final : public Exporter {
 public:
  absl::Status Write(const Snapshot& snapshot, const Blocks& blocks, const ExportRequest& request, TextSink& sink,
                     std::vector<std::string>& notes) const override;
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_EXPORTS_CHROME_TRACE_H_
