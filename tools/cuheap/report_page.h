// `cuheap report --html FILE`: the report as one page.
#ifndef CUHEAP_TOOLS_CUHEAP_REPORT_PAGE_H_
#define CUHEAP_TOOLS_CUHEAP_REPORT_PAGE_H_

#include <string>

#include "analysis/reports/report.h"
#include "analysis/source_lines.h"
#include "tools/cuheap/command_line.h"

namespace cuheap::tools {

// Why the page cannot be written, as far as that is known before a large snapshot is read; empty: nothing.
std::string PageRefusal(const ReportOptions& options);
// The exit status. Says where the page is. source: null: no lines of the program's source.
int WritePage(const analysis::Report& report, analysis::SourceLines* source, const ReportOptions& options);

}  // namespace cuheap::tools

#endif  // CUHEAP_TOOLS_CUHEAP_REPORT_PAGE_H_
