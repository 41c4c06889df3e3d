// A training with PyTorch in miniature: stacks as they are recorded of Python and native frames, and a model of two
// layers with forward and backward passes, optimizer and loss. Tensors are asked of the driver one by one.
#ifndef CUHEAP_TESTS_ANALYSIS_REPORTS_SYNTHETIC_PYTORCH_H_
#define CUHEAP_TESTS_ANALYSIS_REPORTS_SYNTHETIC_PYTORCH_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/analysis/reports/synthetic.h"

namespace cuheap::analysis {

class SyntheticTraining {
 public:
  explicit SyntheticTraining(SyntheticProgram& program) : program_(program) {
    torch_ = program_.AddModule("/v/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so");
    interpreter_ = program_.AddModule("/usr/bin/python3.11");
    module_call_ =
        program_.AddPythonFrame("/v/lib/python3.11/site-packages/torch/nn/modules/module.py", 1750, "_call_impl");
    optimizer_ = program_.AddPythonFrame("/v/lib/python3.11/site-packages/torch/optim/optimizer.py", 526, "wrapper");
    adamw_ = program_.AddPythonFrame("/v/lib/python3.11/site-packages/torch/optim/adamw.py", 100, "AdamW.step");
    top_ = Script(99, "<module>");
  }

  // A frame of the user's script.
  std::uint32_t Script(std::uint32_t line, const std::string& function) {
    const auto [entry, added] = script_.try_emplace({line, function}, 0);
    if (added) entry->second = program_.AddPythonFrame("/opt/me/train.py", line, function);
    return entry->second;
  }
  // An operator, called from the frames given, innermost first.
  std::uint32_t Stack(const std::string& operation, std::vector<std::uint32_t> python) {
    const std::pair key(operation, python);
    const auto [entry, added] = stacks_.try_emplace(key, 0);
    if (!added) return entry->second;
    std::vector<std::uint32_t> frames{
        program_.AddFrame("", 0, "c10::cuda::CUDACachingAllocator::malloc(unsigned long)", torch_),
        program_.AddFrame("", 0, "at::_ops::" + operation + "::call(at::Tensor const&)", torch_),
        program_.AddFrame("", 0, "_PyEval_EvalFrameDefault", interpreter_)};
    frames.insert(frames.end(), python.begin(), python.end());
    frames.push_back(top_);
    return entry->second = program_.AddStack(std::move(frames));
  }
  // In a line of the loop.
  std::uint32_t Loop(const std::string& operation, std::uint32_t line) {
    return Stack(operation, {Script(line, "main")});
  }
  // In the model's forward(), which the loop's line calls.
  std::uint32_t Forward(const std::string& operation, std::uint32_t line, std::uint32_t from) {
    return Stack(operation, {Script(line, "Net.forward"), module_call_, Script(from, "main")});
  }
  // In a node of a backward pass.
  std::uint32_t Backward(const std::string& node) {
    const auto [entry, added] = nodes_.try_emplace(node, 0);
    if (added) {
      entry->second = program_.AddStack(
          {program_.AddFrame("", 0, "c10::cuda::CUDACachingAllocator::malloc(unsigned long)", torch_),
           program_.AddFrame("", 0, "torch::autograd::generated::" + node + "::apply(std::vector<at::Tensor>&&)",
                             torch_),
           program_.AddFrame("", 0, "torch::autograd::Engine::thread_main()", torch_)});
    }
    return entry->second;
  }
  std::uint32_t InOptimizer(const std::string& operation, std::uint32_t line) {
    return Stack(operation, {adamw_, optimizer_, Script(line, "main")});
  }

  std::uint64_t Tensor(std::uint32_t stack, std::uint64_t bytes) {
    return program_.Malloc(stack, bytes, kind_, kByPyTorch);
  }
  void Free(std::uint64_t tensor) { program_.Free(tensor); }
  void Free(const std::vector<std::uint64_t>& tensors) {
    for (const std::uint64_t tensor : tensors) program_.Free(tensor);
  }
  void Temporary(std::uint32_t stack, std::uint64_t bytes) { Free(Tensor(stack, bytes)); }

  // What a forward pass of the model at `line`, and the criterion in the same line, leave for the backward pass.
  std::vector<std::uint64_t> ForwardPass(std::uint32_t line) {
    Temporary(Forward("linear", 20, line), kHidden);
    std::vector<std::uint64_t> saved{Tensor(Forward("relu", 20, line), kHidden)};
    Temporary(Forward("linear", 21, line), kHidden);
    saved.push_back(Tensor(Forward("relu", 21, line), kHidden));
    const std::uint64_t logits = Tensor(Forward("linear", 22, line), kLogits);
    saved.push_back(Tensor(Loop("log_softmax", line), kLogits));
    const std::uint64_t loss = Tensor(Loop("nll_loss", line), 512);
    Free(logits);
    Free(loss);
    return saved;
  }
  // Gradients, new in each pass: zero_grad() sets them to None.
  void BackwardPass(const std::vector<std::uint64_t>& saved) {
    ZeroGrad();
    gradients_ = {Tensor(Backward("AddmmBackward0"), kWeights), Tensor(Backward("TBackward0"), kWeights)};
    Free(saved);
  }
  void ZeroGrad() { Free(std::exchange(gradients_, {})); }
  void SetUp() {
    for (int i = 0; i < 2; ++i) parameters_.push_back(Tensor(Loop("to", 30), kWeights));
  }
  void OptimizerStep(std::uint32_t line) {
    if (state_.empty()) {
      for (int i = 0; i < 4; ++i) state_.push_back(Tensor(InOptimizer("zeros_like", line), kWeights));
    }
    Temporary(InOptimizer("_foreach_sqrt", line), kWeights);
    Temporary(InOptimizer("_foreach_div", line), kWeights);
  }
  // As the interpreter does when main() returns.
  void End() {
    for (auto* tensors : {&gradients_, &state_, &parameters_}) Free(std::exchange(*tensors, {}));
  }

  void set_kind(AllocationKind kind) { kind_ = kind; }

  static constexpr std::uint64_t kHidden = 128 << 10, kLogits = 2560, kWeights = 1 << 20;

 private:
  static constexpr std::uint16_t kByPyTorch = 2;  // interpose/journal/format.h

  SyntheticProgram& program_;
  AllocationKind kind_ = AllocationKind::kStreamOrdered;
  std::uint32_t torch_ = 0, interpreter_ = 0, module_call_ = 0, optimizer_ = 0, adamw_ = 0, top_ = 0;
  std::map<std::pair<std::uint32_t, std::string>, std::uint32_t> script_;
  std::map<std::pair<std::string, std::vector<std::uint32_t>>, std::uint32_t> stacks_;
  std::map<std::string, std::uint32_t> nodes_;
  std::vector<std::uint64_t> parameters_, state_, gradients_;
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_TESTS_ANALYSIS_REPORTS_SYNTHETIC_PYTORCH_H_
