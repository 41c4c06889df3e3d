// What PyTorch's own snapshot tells of its cache beyond what a recorder of calls can: sizes as they were asked for, and
// private pools.
#ifndef CUHEAP_ANALYSIS_REPORTS_TORCH_FACTS_TEXT_H_
#define CUHEAP_ANALYSIS_REPORTS_TORCH_FACTS_TEXT_H_

#include "analysis/reports/text_canvas.h"
#include "analysis/snapshot.h"

namespace cuheap::analysis {

// Nothing for snapshots of others.
void WriteTorchFacts(const Snapshot& snapshot, TextCanvas& canvas);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_TORCH_FACTS_TEXT_H_
