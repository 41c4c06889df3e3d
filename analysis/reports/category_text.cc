#include "analysis/reports/category_text.h"

#include <algorithm>
#include <string>
#include <vector>

#include "analysis/reports/text_format.h"

namespace cuheap::analysis {
namespace {

constexpr double kFewBytes = 0.01;  // of a device's memory, beside PyTorch's cache: not worth a table

double ShareOf(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

// "made within Optimizer.step, and outlived it"; of several rules those that decided most bytes.
std::vector<std::string> RulesOf(const CategoryMoment& moment, Category category) {
  std::vector<CategoryRule> rules;
  for (std::size_t i = 0; i < kCategoryRules; ++i) {
    const auto rule = static_cast<CategoryRule>(i);
    if (CategoryOf(rule) == category && moment.of(rule).blocks != 0) rules.push_back(rule);
  }
  std::stable_sort(rules.begin(), rules.end(),
                   [&](CategoryRule a, CategoryRule b) { return moment.of(a).bytes > moment.of(b).bytes; });
  std::vector<std::string> texts;
  for (const CategoryRule rule : rules) {
    // What is next to nothing of the category would only hide what is.
    if (!texts.empty() && 100 * moment.of(rule).bytes < moment.of(category).bytes) break;
    texts.emplace_back(Explain(rule));
    if (rules.size() > 1) texts.back() += " (" + HumanBytes(static_cast<double>(moment.of(rule).bytes)) + ")";
  }
  return texts;
}

}  // namespace

void RenderPeakCategories(const ScopeCategories& categories, TextCanvas& canvas) {
  const CategoryMoment& peak = categories.at_peak;
  const std::uint64_t whole = peak.bytes() + peak.cache.bytes;
  // Programs that use no framework have hardly more than these: how long blocks live has a table of its own.
  const std::uint64_t little = peak.of(Category::kOther).bytes + peak.of(Category::kTemporaries).bytes;
  if (!categories.peak_known || peak.bytes() == little) return;
  if (peak.cache.blocks != 0 && ShareOf(peak.bytes(), whole) < kFewBytes) return;
  canvas.Line();
  canvas.Dim("      bytes    share   blocks  category, at the peak, and why");
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < kCategories; ++i) {
    if (peak.categories[i].blocks != 0) rows.push_back(i);
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [&](std::size_t a, std::size_t b) { return peak.categories[a].bytes > peak.categories[b].bytes; });
  for (const std::size_t i : rows) {
    const auto category = static_cast<Category>(i);
    const CategorySum& sum = peak.categories[i];
    const std::string row = PadLeft(HumanBytes(static_cast<double>(sum.bytes)), 11) + "  " +
                            PadLeft(Percent(ShareOf(sum.bytes, whole)), 7) + "  " + PadLeft(Grouped(sum.blocks), 7) +
                            "  " + std::string(Name(category));
    const std::vector<std::string> why = RulesOf(peak, category);
    if (why.size() == 1 && Columns(row) + 2 + Columns(why.front()) <= canvas.width()) {
      canvas.Line(row + ": " + why.front());
      continue;
    }
    canvas.Line(row);
    for (const std::string& rule : why) canvas.Dim(std::string(13, ' ') + rule);
  }
}

}  // namespace cuheap::analysis
