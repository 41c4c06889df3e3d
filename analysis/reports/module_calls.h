// The calls of nn.Modules in forward passes, as the stacks of what they allocated show them.
//
// Note [Calls of modules]
// A stack names the code that ran, not the object: the layers of a loop have one stack. A site is a way from the model
// inward, by the lines that call and the forward() functions called; the calls at one site are told apart where other
// code allocates between them, and else where what came first comes again, if then all of them allocate alike.
#ifndef CUHEAP_ANALYSIS_REPORTS_MODULE_CALLS_H_
#define CUHEAP_ANALYSIS_REPORTS_MODULE_CALLS_H_

#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

#include "analysis/reports/blocks.h"
#include "analysis/snapshot.h"

namespace cuheap::analysis {

class ModuleSites {
 public:
  explicit ModuleSites(const Snapshot& snapshot);

  // The sites that a stack lies in, outermost first.
  const std::vector<std::uint32_t>& PathOf(std::uint32_t stack) const {
    return paths_[stack < paths_.size() ? stack : 0];
  }
  // "Block.forward"; as Python names it.
  std::string_view ForwardOf(std::uint32_t site) const { return sites_[site].function; }
  // Index of the frame that calls; its line is the call's.
  std::uint32_t CallerFrameOf(std::uint32_t site) const { return sites_[site].caller; }
  std::uint32_t ParentOf(std::uint32_t site) const { return sites_[site].parent; }
  std::size_t size() const { return sites_.size(); }

 private:
  struct Site {
    std::uint32_t parent = 0;  // 0: none; site 0 is none
    std::uint32_t caller = 0;  // frame
    std::string_view function, file;
    friend auto operator<=>(const Site&, const Site&) = default;
  };
  std::vector<std::uint32_t> PathIn(const Stack& stack, std::map<Site, std::uint32_t>& known);

  const Snapshot& snapshot_;
  std::vector<Site> sites_;
  std::vector<std::vector<std::uint32_t>> paths_;  // never empty
};

// What one call of a module allocated, in order.
using ModuleCall = std::vector<const Block*>;
// The calls at a site among the blocks of one forward pass (by position).
std::vector<ModuleCall> CallsAt(const ModuleSites& sites, std::uint32_t site, std::span<const Block* const> blocks);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_MODULE_CALLS_H_
