// The categories of reports/categories.h as the page needs them.
#ifndef CUHEAP_ANALYSIS_HTML_BLOCK_CATEGORIES_H_
#define CUHEAP_ANALYSIS_HTML_BLOCK_CATEGORIES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/reports/report.h"

namespace cuheap::analysis {

struct BlockCategories {
  std::vector<std::uint8_t> of_block;       // of every block of blocks.program: index into names
  std::vector<std::uint8_t> rule_of_block;  // ... into rules
  std::vector<std::string> names, rules;    // rules: a sentence each
};

BlockCategories CategoriesOf(const Report& report);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_HTML_BLOCK_CATEGORIES_H_
