// Categories in words: what a peak was made of, and why each part is called so.
#ifndef CUHEAP_ANALYSIS_REPORTS_CATEGORY_TEXT_H_
#define CUHEAP_ANALYSIS_REPORTS_CATEGORY_TEXT_H_

#include "analysis/reports/category_totals.h"
#include "analysis/reports/text_canvas.h"

namespace cuheap::analysis {

// A table under the lines of a peak: category, bytes, share, rules. Nothing if all is "other" or temporary.
void RenderPeakCategories(const ScopeCategories& categories, TextCanvas& canvas);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_CATEGORY_TEXT_H_
