// What frames of PyTorch say about an allocation: which part of a training asked for it.
//
// PyTorch's files are known by the end of their paths, so that a checkout counts as well as an installed wheel; its
// native functions by the names that its libraries export (seen with torch 2.8 and 2.15).
#ifndef CUHEAP_ANALYSIS_REPORTS_FRAMEWORK_FRAMES_H_
#define CUHEAP_ANALYSIS_REPORTS_FRAMEWORK_FRAMES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/snapshot.h"

namespace cuheap::analysis {

// A Python file of PyTorch itself, or Python code that it generated (torch.fx, torch.compile).
bool IsTorchSource(std::string_view file);
// Where nn.Module.__call__ leads to forward().
bool IsModuleCall(std::string_view function, std::string_view file);
// Where an nn.Module makes its parameters and buffers, or moves them: __init__, to(), cuda(), half(), ...
bool IsModuleSetup(std::string_view function, std::string_view file);
// Optimizer.step of PyTorch, and of any subclass: PyTorch wraps them all. Not a learning-rate scheduler's.
bool IsOptimizerStep(std::string_view function, std::string_view file);
// A native function: a node of the autograd graph at work in a backward pass.
bool IsAutogradNode(std::string_view function);
// A native function of PyTorch's dispatcher, at::_ops::NAME::call: the operator NAME; else empty.
std::string_view OperatorOf(std::string_view function);
// What a native function of PyTorch makes room for if it is for a CUDA library and not for a tensor: "cuBLAS
// workspace", "cuBLASLt workspace"; else empty. (Names as torch 2.15 has them, and of older versions.)
std::string_view WorkspaceOf(std::string_view function);
// Operators that make or copy a tensor without reckoning: data, not a part of a graph.
bool MakesData(std::string_view operation);
// Of these, the operators that need no tensor to make one: randn, arange, zeros_like, ...
bool MakesFromNothing(std::string_view operation);
// A function (native, or Python in this file) of PyTorch's distributed package that makes buffers for collectives.
bool IsCollective(std::string_view function, std::string_view file);

// What PyTorch was doing, for every stack of a snapshot.
class FrameworkStacks {
 public:
  struct Facts {
    bool python = false;  // Python ran (frames of the forward pass that were added to a backward one don't count)
    bool optimizer_step = false;  // within an optimizer's step
    bool backward = false;        // within a backward pass
    bool module_call = false;     // within the call of an nn.Module
    bool module_setup = false;    // an nn.Module makes its parameters, or moves them (to(), cuda())
    bool constructor = false;     // within an __init__ that is not a package's
    bool checkpoint = false;      // a file of weights is read: torch.load, safetensors
    bool optimizer_load = false;  // within Optimizer.load_state_dict
    bool collective = false;      // see IsCollective
    bool backward_root = false;   // backward() makes the gradient that a pass begins with, in the caller's thread
    // The Python frame (index into frames) that called the optimizer: the next one outward that is no package's. 0:
    // none.
    std::uint32_t optimizer_caller = 0;
    std::string_view operation;  // the outermost operator before Python, see OperatorOf; lies in the snapshot
    // Equal for stacks of one call: the same Python frames, the same operation.
    std::uint64_t call = 0;
  };
  // Which part of a training made a tensor. The innermost reason counts: what a backward pass or an optimizer's step
  // makes within a module is theirs.
  enum class Part : std::uint8_t {
    kOptimizer,
    kBackward,
    kForward,    // within an nn.Module's call
    kSetup,      // see module_setup
    kReckoning,  // outside of modules, an operator that reckons: a criterion, a metric, a model of functions
    kData,       // outside of modules, an operator that makes or copies data
    kUnknown,
  };
  static Part PartOf(const Facts& facts);
  explicit FrameworkStacks(const Snapshot& snapshot);
  // Out of range: nothing is known.
  const Facts& Of(std::uint32_t stack) const { return stack < facts_.size() ? facts_[stack] : facts_.front(); }
  bool Any(bool Facts::* fact) const;

 private:
  std::vector<Facts> facts_;  // never empty
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_FRAMEWORK_FRAMES_H_
