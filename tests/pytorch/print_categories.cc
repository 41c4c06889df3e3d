// Prints the category of every tensor of a snapshot, and the rule that decided, for comparison with PyTorch's memory
// profiler.
//
// usage: print_categories SNAPSHOT      (stdout: one JSON array, a tensor an object, in order of allocation)
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "analysis/reports/blocks.h"
#include "analysis/reports/categories.h"
#include "analysis/reports/framework_frames.h"
#include "analysis/reports/lines.h"
#include "analysis/reports/steps.h"
#include "analysis/snapshot.h"
#include "analysis/snapshot_loader.h"

namespace cuheap::analysis {
namespace {

int Print(const char* path) {
  const absl::StatusOr<Snapshot> snapshot = LoadSnapshot(path);
  if (!snapshot.ok()) {
    std::fprintf(stderr, "%s\n", std::string(snapshot.status().message()).c_str());
    return 1;
  }
  const Blocks blocks = JoinBlocks(*snapshot);
  const LineTable lines(*snapshot, {});
  const FrameworkStacks stacks(*snapshot);
  const Categories categories(*snapshot, blocks, lines, stacks, FindSteps(*snapshot, blocks, stacks));
  nlohmann::json result = nlohmann::json::array();
  for (const Block& block : blocks.program) {
    if (!block.framework_tensor()) continue;
    const Categorised& of = categories.Of(block);
    result.push_back({{"address", block.address},
                      {"bytes", block.bytes},
                      {"allocated_at", block.allocated_at},
                      {"freed_at", block.freed_at == kNoPosition ? nlohmann::json() : nlohmann::json(block.freed_at)},
                      {"category", Word(of.category)},
                      {"rule", Word(of.rule)},
                      {"line", Describe(lines.line(lines.OfStack(block.stack)))},
                      {"operation", stacks.Of(block.stack).operation}});
  }
  std::printf("%s\n", result.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  return 0;
}

}  // namespace
}  // namespace cuheap::analysis

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  return cuheap::analysis::Print(argv[1]);
}
