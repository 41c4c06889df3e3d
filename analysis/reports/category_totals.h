// How many bytes each category holds: at the peak, at the end, and all along.
#ifndef CUHEAP_ANALYSIS_REPORTS_CATEGORY_TOTALS_H_
#define CUHEAP_ANALYSIS_REPORTS_CATEGORY_TOTALS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "analysis/reports/blocks.h"
#include "analysis/reports/categories.h"
#include "analysis/reports/totals.h"
#include "analysis/snapshot.h"

namespace cuheap::analysis {

struct CategorySum {
  std::uint64_t bytes = 0, blocks = 0;
};

// What was live at one moment. Segments of PyTorch's cache are in no category where its tensors were observed: they
// have a scope and categories of their own.
struct CategoryMoment {
  std::array<CategorySum, kCategories> categories{};
  std::array<CategorySum, kCategoryRules> rules{};  // the same, by the rule that decided
  CategorySum cache;                                // those segments
  const CategorySum& of(Category category) const { return categories[static_cast<std::size_t>(category)]; }
  const CategorySum& of(CategoryRule rule) const { return rules[static_cast<std::size_t>(rule)]; }
  std::uint64_t bytes() const {  // of all categories
    std::uint64_t sum = 0;
    for (const CategorySum& category : categories) sum += category.bytes;
    return sum;
  }
};

struct ScopeCategories {
  Scope scope;
  bool peak_known = false;  // false: the peak lies before the events that were kept
  CategoryMoment at_peak, at_end;
  // One for each point of ScopeTotals::curve: the bytes of each category when the most was live from this point's time
  // to the next point's.
  std::vector<std::array<std::uint64_t, kCategories>> curve;
};

// One for each of totals, in their order. Time: linear in the events.
std::vector<ScopeCategories> MeasureCategories(const Snapshot& snapshot, const Blocks& blocks,
                                               const Categories& categories, const std::vector<ScopeTotals>& totals);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_CATEGORY_TOTALS_H_
