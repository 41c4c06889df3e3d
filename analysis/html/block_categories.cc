#include "analysis/html/block_categories.h"

#include <array>
#include <map>
#include <string_view>

#include "analysis/reports/kinds.h"

namespace cuheap::analysis {

BlockCategories CategoriseBlocks(const Report& report, const Blocks& blocks) {
  BlockCategories categories;
  std::map<std::string, std::uint8_t> known;
  categories.of_block.reserve(blocks.program.size());
  for (const Block& block : blocks.program) {
    std::string name(KindPhrase(block.kind));
    if (block.is_tensor()) name = "tensors";
    if (block.in_framework_cache()) name = "PyTorch's cache";
    if (const std::string& library = report.lines.LibraryOfStack(block.stack); !library.empty())
      name = "workspace of libraries";
    const auto [entry, fresh] = known.try_emplace(name, static_cast<std::uint8_t>(categories.names.size()));
    if (fresh) categories.names.push_back(name);
    categories.of_block.push_back(entry->second);
  }
  return categories;
}

}  // namespace cuheap::analysis
