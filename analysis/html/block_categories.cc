#include "analysis/html/block_categories.h"

#include "analysis/reports/categories.h"
#include "analysis/reports/framework_frames.h"
#include "analysis/reports/steps.h"

namespace cuheap::analysis {

BlockCategories CategoriseBlocks(const Report& report, const Blocks& blocks) {
  const Snapshot& snapshot = *report.snapshot;
  const FrameworkStacks stacks(snapshot);
  StepClocks clocks = FindSteps(snapshot, blocks, stacks);
  clocks.main = report.steps;  // which may have dropped some: see RanOut
  const Categories categories(snapshot, blocks, report.lines, stacks, clocks);
  BlockCategories result;
  for (std::size_t i = 0; i < kCategories; ++i) result.names.emplace_back(Name(static_cast<Category>(i)));
  for (std::size_t i = 0; i < kCategoryRules; ++i) result.rules.emplace_back(Explain(static_cast<CategoryRule>(i)));
  result.of_block.reserve(blocks.program.size());
  result.rule_of_block.reserve(blocks.program.size());
  for (const Categorised& categorised : categories.all()) {
    result.of_block.push_back(static_cast<std::uint8_t>(categorised.category));
    result.rule_of_block.push_back(static_cast<std::uint8_t>(categorised.rule));
  }
  return result;
}

}  // namespace cuheap::analysis
