// A comparison for a terminal, for a comment of CI (Markdown), and for scripts (JSON): docs/diff.md.
#ifndef CUHEAP_ANALYSIS_REPORTS_DIFF_TEXT_H_
#define CUHEAP_ANALYSIS_REPORTS_DIFF_TEXT_H_

#include <string>
#include <vector>

#include "analysis/reports/diff.h"
#include "analysis/reports/fail_on.h"
#include "analysis/reports/report_text.h"

namespace cuheap::analysis {

// Of the JSON; grows when a member changes its meaning or goes away, not when one is added.
inline constexpr int kDiffVersion = 1;

struct DiffDocument {
  const Diff* diff = nullptr;
  std::string name_before, name_after;  // of the files
  std::vector<Judgement> judgements;
};

// Each ends in a newline. Same document, same text.
std::string RenderDiffText(const DiffDocument& document, const TextOptions& options = {});
std::string RenderDiffJson(const DiffDocument& document);
// GitHub's Markdown (others show it as well). Names from the program are in <code>, all that is markup in them escaped.
// `top`: rows of every table.
std::string RenderDiffMarkdown(const DiffDocument& document, std::size_t top = 10);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_DIFF_TEXT_H_
