// Driver objects that pile up, in words.
#ifndef CUHEAP_ANALYSIS_REPORTS_DRIVER_OBJECTS_TEXT_H_
#define CUHEAP_ANALYSIS_REPORTS_DRIVER_OBJECTS_TEXT_H_

#include <string>

#include "analysis/reports/report.h"
#include "analysis/reports/text_canvas.h"

namespace cuheap::analysis {

// "20,000 events were never destroyed"; empty: nothing piles up.
std::string PiledUpObjectsText(const Report& report);
// What to do about it; empty: nothing piles up.
std::string AdviceFor(const DriverObjects& objects);
// A section, if something piles up.
void WriteDriverObjects(const Report& report, TextCanvas& canvas);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_DRIVER_OBJECTS_TEXT_H_
