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

// Overloads carry a suffix: "randn_generator", "to_dtype_layout", "empty_memory_format", "zeros_like".
template <std::size_t kCount>
bool IsOverloadOfAny(std::string_view operation, const std::array<std::string_view, kCount>& names) {
  return std::any_of(names.begin(), names.end(), [&](std::string_view name) {
    return operation.starts_with(name) && (operation.size() == name.size() || operation[name.size()] == '_');
  });
}

// "Adam.step" (a qualified name, CPython 3.11 on) and "step" alike.
std::string_view LastName(std::string_view function) { return function.substr(function.rfind('.') + 1); }

bool IsCheckpointReader(std::string_view file) {
  return file.ends_with("/torch/serialization.py") || file.find("/safetensors/") != std::string_view::npos;
}

bool LoadsOptimizer(std::string_view function, std::string_view file) {
  return file.find("/torch/optim/") != std::string_view::npos && LastName(function) == "load_state_dict";
}

// A part of a forward pass runs again, within a backward pass: activation checkpointing. Its stacks are so deep that
// the frames of autograd's engine may be missing.
bool Recomputes(std::string_view function, std::string_view file) {
  if (!file.ends_with("/torch/utils/checkpoint.py")) return false;
  const std::string_view name = LastName(function);
  return name == "unpack_hook" || name == "recompute_fn" || name == "backward";
}

bool MakesBackwardRoot(std::string_view function, std::string_view file) {
  return file.ends_with("/torch/autograd/__init__.py") && LastName(function) == "_make_grads";
}

// FNV-1a.
class Fingerprint {
 public:
  void Add(std::uint32_t value) {
    for (int shift = 0; shift < 32; shift += 8) AddByte(static_cast<unsigned char>(value >> shift));
  }
  void Add(std::string_view text) {
    for (const char c : text) AddByte(static_cast<unsigned char>(c));
  }
  std::uint64_t value() const { return value_; }

 private:
  void AddByte(unsigned char byte) { value_ = (value_ ^ byte) * 0x100000001b3; }
  std::uint64_t value_ = 0xcbf29ce484222325;
};

// Snapshots of PyTorch come from Windows as well.
std::string WithSlashes(std::string_view file) {
  std::string path(file);
  std::replace(path.begin(), path.end(), '\\', '/');
  return path;
}

// What a Python frame adds.
void AddPythonFrame(FrameworkStacks::Facts& facts, std::string_view function, std::string_view file,
                    std::uint32_t index) {
  facts.python = true;
  const bool of_package = file.find("-packages/") != std::string_view::npos || IsTorchSource(file);
  if (IsOptimizerStep(function, file)) {
    facts.optimizer_step = true;
    facts.optimizer_caller = 0;  // the outermost one counts
  } else if (facts.optimizer_step && facts.optimizer_caller == 0 && !of_package) {
    facts.optimizer_caller = index;
  }
  facts.module_setup = facts.module_setup || IsModuleSetup(function, file);
  facts.module_call = facts.module_call || IsModuleCall(function, file);
  facts.constructor = facts.constructor || (LastName(function) == "__init__" && !of_package);
  facts.checkpoint = facts.checkpoint || IsCheckpointReader(file);
  facts.optimizer_load = facts.optimizer_load || LoadsOptimizer(function, file);
  facts.backward = facts.backward || Recomputes(function, file);
  facts.backward_root = facts.backward_root || MakesBackwardRoot(function, file);
  facts.collective = facts.collective || IsCollective(function, file);
}

FrameworkStacks::Facts FactsOf(const Snapshot& snapshot, const Stack& stack) {
  FrameworkStacks::Facts facts;
  const auto text = [&](std::uint32_t string) {
    return string < snapshot.strings.size() ? std::string_view(snapshot.strings[string]) : std::string_view();
  };
  facts.backward = stack.backward != 0;
  Fingerprint call;
  for (const std::uint32_t index : stack.frames) {
    if (index >= snapshot.frames.size()) continue;
    const Frame& frame = snapshot.frames[index];
    const std::string_view function = text(frame.function);
    if (frame.kind == FrameKind::kPython) {
      if (text(frame.reason).starts_with(kForwardOf)) {
        facts.backward = true;
        continue;
      }
      AddPythonFrame(facts, function, WithSlashes(text(frame.file)), index);
      call.Add(index);
    } else if (frame.kind == FrameKind::kNative) {
      facts.backward = facts.backward || IsAutogradNode(function);
      facts.collective = facts.collective || IsCollective(function, {});
      if (!facts.python && !facts.backward && !OperatorOf(function).empty()) facts.operation = OperatorOf(function);
    }
  }
  call.Add(facts.operation);
  facts.call = call.value();
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
  constexpr std::array kCopiers = {"clone"sv,    "contiguous"sv, "copy"sv,       "to"sv,
                                   "_to_copy"sv, "lift_fresh"sv, "cat"sv,        "stack"sv,
                                   "one_hot"sv,  "pin_memory"sv, "_pin_memory"sv};
  return MakesFromNothing(operation) || IsOverloadOfAny(operation, kCopiers);
}

bool MakesFromNothing(std::string_view operation) {
  constexpr std::array kMakers = {"arange"sv,   "empty"sv,    "eye"sv,      "full"sv,          "linspace"sv,
                                  "normal"sv,   "ones"sv,     "rand"sv,     "randint"sv,       "randn"sv,
                                  "randperm"sv, "zeros"sv,    "tensor"sv,   "scalar_tensor"sv, "new_empty"sv,
                                  "new_full"sv, "new_ones"sv, "new_zeros"sv};
  return IsOverloadOfAny(operation, kMakers);
}

bool IsCollective(std::string_view function, std::string_view file) {
  constexpr std::array kFiles = {"/torch/distributed/distributed_c10d.py"sv,
                                 "/torch/distributed/_functional_collectives.py"sv,
                                 "/torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py"sv};
  return function.starts_with("c10d::") ||
         std::any_of(kFiles.begin(), kFiles.end(), [&](std::string_view name) { return file.ends_with(name); });
}

FrameworkStacks::Part FrameworkStacks::PartOf(const Facts& facts) {
  if (facts.optimizer_step) return Part::kOptimizer;
  if (facts.backward) return Part::kBackward;
  if (facts.module_call) return Part::kForward;
  if (facts.module_setup) return Part::kSetup;
  if (facts.operation.empty()) return Part::kUnknown;
  return MakesData(facts.operation) ? Part::kData : Part::kReckoning;
}

FrameworkStacks::FrameworkStacks(const Snapshot& snapshot) {
  facts_.reserve(snapshot.stacks.size() + 1);
  for (const Stack& stack : snapshot.stacks) facts_.push_back(FactsOf(snapshot, stack));
  if (facts_.empty()) facts_.emplace_back();
}

bool FrameworkStacks::Any(bool Facts::* fact) const {
  return std::any_of(facts_.begin(), facts_.end(), [&](const Facts& facts) { return facts.*fact; });
}

}  // namespace cuheap::analysis
