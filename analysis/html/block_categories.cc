#include "analysis/html/block_categories.h"

#include "analysis/reports/categories.h"

namespace cuheap::analysis {

BlockCategories CategoriesOf(const Report& report) {
  BlockCategories result;
  for (std::size_t i = 0; i < kCategories; ++i) result.names.emplace_back(Name(static_cast<Category>(i)));
  for (std::size_t i = 0; i < kCategoryRules; ++i) result.rules.emplace_back(Explain(static_cast<CategoryRule>(i)));
  result.of_block.reserve(report.block_categories.size());
  result.rule_of_block.reserve(report.block_categories.size());
  for (const Categorised& categorised : report.block_categories) {
    result.of_block.push_back(static_cast<std::uint8_t>(categorised.category));
    result.rule_of_block.push_back(static_cast<std::uint8_t>(categorised.rule));
  }
  return result;
}

}  // namespace cuheap::analysis
