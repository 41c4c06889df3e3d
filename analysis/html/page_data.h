// What the page shows, as compact JSON: columns and indices instead of objects, differences instead of times. The
// page's own data.js is the only reader; both come out of one build, so the form may change with every version.
#ifndef CUHEAP_ANALYSIS_HTML_PAGE_DATA_H_
#define CUHEAP_ANALYSIS_HTML_PAGE_DATA_H_

#include <string>

#include "analysis/reports/report.h"
#include "analysis/source_lines.h"

namespace cuheap::analysis {

// JSON in UTF-8 that may stand in a <script> block as it is: no '<', '>' or '&', and no control characters.
// source: lines of the program's source are shown from here; null: none are.
std::string PageData(const Report& report, SourceLines* source);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_HTML_PAGE_DATA_H_
