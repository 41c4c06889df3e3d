// Folded stacks: "GPU 0;main (train.cc:200);Step (train.cc:57) 4096", a line for every stack, outermost frame first,
// bytes last. Format: brendangregg/FlameGraph, README.md, "Fold stacks".
//
// The first frame is the device. ';' parts frames, so that a ';' in a name becomes ','; control characters become '?'.
#ifndef CUHEAP_ANALYSIS_EXPORTS_FOLDED_H_
#define CUHEAP_ANALYSIS_EXPORTS_FOLDED_H_

#include <string>
#include <vector>

#include "analysis/exports/exporter.h"

namespace cuheap::analysis {

class FoldedStacks final : public Exporter {
 public:
  absl::Status Write(const Snapshot& snapshot, const Blocks& blocks, const ExportRequest& request, TextSink& sink,
                     std::vector<std::string>& notes) const override;
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_EXPORTS_FOLDED_H_
