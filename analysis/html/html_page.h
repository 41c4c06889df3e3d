// The report as one HTML file that needs nothing else: no network, no server, no other file.
#ifndef CUHEAP_ANALYSIS_HTML_HTML_PAGE_H_
#define CUHEAP_ANALYSIS_HTML_HTML_PAGE_H_

#include <string>

#include "analysis/reports/report.h"
#include "analysis/source_lines.h"

namespace cuheap::analysis {

// Note [What a page may do]
// Names in a snapshot come from the program and from whoever made the file. On the page they are data in a JSON block,
// and text in the part for browsers without scripts, never markup; the page's policy (Content-Security-Policy) lets
// nothing run but the scripts that were bundled when cuheap was built, by their hashes, and nothing be fetched at all.
//
// The same report gives the same bytes. source: lines of the program's source are shown from here; null: none are.
std::string RenderHtml(const Report& report, SourceLines* source);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_HTML_HTML_PAGE_H_
