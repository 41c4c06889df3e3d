#include "analysis/reports/framework_frames.h"

#include <algorithm>
#include <array>

#include "analysis/backward.h"

namespace cuheap::analysis {
namespace {

using std::string_view_literals::operator""sv;

template <std::size_t kCount>
bool ContainsAny(std::string_view text, const std::array<std::string_view, kCount>& parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return text.find(part) != std::string_view::npos; });
}

// "Adam.step" (a qualified name, CPython 3.11 on) and "step" alike.
std::string_view LastName(std::string_view function) { return function.substr(function.rfind('.') + 1); }

FrameworkStacks::Facts FactsOf(const Snapshot& snapshot, const Stack& stack) {
  FrameworkStacks::Facts facts;
  const auto text = [&](std::uint32_t string) {
    return string < snapshot.strings.size() ? std::string_view(snapshot.strings[string]) : std::string_view();
  };
  facts.backward = stack.backward != 0;
  for (const std::uint32_t index : stack.frames) {
    if (index >= snapshot.frames.size()) continue;
    const Frame& frame = snapshot.frames[index];
    const std::string_view function = text(frame.function);
    if (frame.kind == FrameKind::kPython) {
      if (text(frame.reason).starts_with(kForwardOf)) {
        facts.backward = true;
        continue;
      }
      facts.python = true;
      const std::string_view file = text(frame.file);
      if (IsOptimizerStep(function, file)) {
        facts.optimizer_step = true;
        facts.optimizer_caller = 0;  // the outermost one counts
      } else if (facts.optimizer_step && facts.optimizer_caller == 0 && !IsTorchSource(file) &&
                 file.find("-packages/") == std::string_view::npos) {
        facts.optimizer_caller = index;
      }
      facts.module_setup = facts.module_setup || IsModuleSetup(function, file);
      facts.module_call = facts.module_call || IsModuleCall(function, file);
    } else if (frame.kind == FrameKind::kNative) {
      facts.backward = facts.backward || IsAutogradNode(function);
      if (!facts.python && !facts.backward && !OperatorOf(function).empty()) facts.operation = OperatorOf(function);
    }
  }
  return facts;
}

}  // namespace

bool IsTorchSource(std::string_view file) {
  constexpr std::array kTorch = {"-packages/torch/"sv,    "/torch/nn/modules/"sv, "/torch/nn/functional.py"sv,
                                 "/torch/nn/parallel/"sv, "/torch/optim/"sv,      "/torch/autograd/"sv,
                                 "/torch/amp/"sv,         "/torch/utils/"sv,      "/torch/_tensor.py"sv,
                                 "/torch/_ops.py"sv,      "/torch/_dynamo/"sv,    "/torch/_inductor/"sv,
                                 "/torch/_functorch/"sv,  "/torch/fx/"sv,         "/torchinductor_"sv};
  return ContainsAny(file, kTorch) || file.starts_with("<eval_with_key>");
}

bool IsModuleCall(std::string_view function, std::string_view file) {
  if (!file.ends_with("/torch/nn/modules/module.py")) return false;
  const std::string_view name = LastName(function);
  return name == "_wrapped_call_impl" || name == "_call_impl" || name == "__call__";
}

bool IsModuleSetup(std::string_view function, std::string_view file) {
  const std::string_view name = LastName(function);
  if (file.ends_with("/torch/nn/modules/module.py")) return name == "_apply";
  return file.find("/torch/nn/modules/") != std::string_view::npos && name == "__init__";
}

bool IsOptimizerStep(std::string_view function, std::string_view file) {
  if (file.find("/torch/optim/") == std::string_view::npos) return false;
  const std::string_view name = LastName(function);
  if (file.ends_with("/torch/optim/optimizer.py")) return name == "wrapper";  // of profile_hook_step
  return name == "step" && !file.ends_with("/lr_scheduler.py");
}

bool IsAutogradNode(std::string_view function) {
  return function.starts_with("torch::autograd::") &&
         (function.find("::apply(") != std::string_view::npos || function.ends_with("::apply") ||
          function.starts_with("torch::autograd::Engine::"));
}

std::string_view OperatorOf(std::string_view function) {
  constexpr std::string_view kBegin = "at::_ops::";
  if (!function.starts_with(kBegin)) return {};
  function.remove_prefix(kBegin.size());
  const std::size_t end = function.find("::call(");
  return end == std::string_view::npos ? std::string_view() : function.substr(0, end);
}

std::string_view WorkspaceOf(std::string_view function) {
  if (!function.starts_with("at::cuda::")) return {};
  constexpr std::array kLt = {"CublasLtWorkspace"sv, "getCUDABlasLtWorkspace"sv};
  constexpr std::array kBlas = {"allocateCUDABlasWorkspace"sv, "getCurrentCUDABlasHandle"sv, "getTemporaryWorkspace"sv,
                                "getNewWorkspace"sv, "setWorkspaceForHandle"sv};
  if (ContainsAny(function, kLt)) return "cuBLASLt workspace";
  return ContainsAny(function, kBlas) ? "cuBLAS workspace" : std::string_view();
}

bool MakesData(std::string_view operation) {
  constexpr std::array kMakers = {
      "arange"sv, "clone"sv,      "contiguous"sv, "copy"sv,    "empty"sv,  "eye"sv,      "full"sv,         "linspace"sv,
      "normal"sv, "ones"sv,       "rand"sv,       "randint"sv, "randn"sv,  "randperm"sv, "to"sv,           "_to_copy"sv,
      "zeros"sv,  "lift_fresh"sv, "cat"sv,        "stack"sv,   "tensor"sv, "one_hot"sv,  "scalar_tensor"sv};
  // Overloads carry a suffix: "randn_generator", "to_dtype_layout", "empty_memory_format", "zeros_like".
  return std::any_of(kMakers.begin(), kMakers.end(), [&](std::string_view maker) {
    return operation.starts_with(maker) && (operation.size() == maker.size() || operation[maker.size()] == '_');
  });
}

FrameworkStacks::FrameworkStacks(const Snapshot& snapshot) {
  facts_.reserve(snapshot.stacks.size() + 1);
  for (const Stack& stack : snapshot.stacks) facts_.push_back(FactsOf(snapshot, stack));
  if (facts_.empty()) facts_.emplace_back();
}

}  // namespace cuheap::analysis
