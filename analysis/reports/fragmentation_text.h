// The sections FRAGMENTATION and ADDRESS MAP of the terminal report, and the same facts in JSON.
#ifndef CUHEAP_ANALYSIS_REPORTS_FRAGMENTATION_TEXT_H_
#define CUHEAP_ANALYSIS_REPORTS_FRAGMENTATION_TEXT_H_

#include <string>

#include "analysis/reports/report.h"
#include "analysis/reports/text_canvas.h"

namespace cuheap::analysis {

// Nothing if it does not matter.
void FragmentationSection(const Report& report, const Fragmentation& fragmentation, TextCanvas& canvas);

// One row a segment, one letter a line: where its blocks lie.
void AddressMapSection(const Report& report, const Fragmentation& fragmentation, TextCanvas& canvas);

// One sentence on what it is: "Idle cache after a peak of 3.0 GiB in tensors, not fragmentation: ...".
std::string FragmentationVerdict(const Fragmentation& fragmentation);

// What can be done about the largest cause; empty if nothing.
std::string AdviceFor(const Report& report, const Fragmentation& fragmentation);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_FRAGMENTATION_TEXT_H_
