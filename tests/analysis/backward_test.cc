#include "analysis/backward.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "analysis/autograd_names.h"
#include "analysis/snapshot.h"
#include "analysis/snapshot_check.h"

namespace cuheap::analysis {
namespace {

TEST(AutogradNamesTest, NodesAreReadFromTheirFunctions) {
  EXPECT_EQ(NodeOfFunction("torch::autograd::generated::AddmmBackward0::apply(std::vector<at::Tensor>&&)"),
            "AddmmBackward0");
  EXPECT_EQ(NodeOfFunction("torch::autograd::AccumulateGrad::apply(std::vector<at::Tensor>&&)"), "AccumulateGrad");
  EXPECT_EQ(NodeOfFunction("torch::autograd::generated::AddmmBackward0_apply_functional(int)"), "");
  EXPECT_EQ(NodeOfFunction("torch::autograd::Function<X>::apply(int)"), "");
  EXPECT_EQ(NodeOfFunction("at::_ops::mm::call(at::Tensor const&)"), "");
}

TEST(AutogradNamesTest, OperationsAreReadFromTheirFunctions) {
  EXPECT_EQ(OperationOfFunction("torch::autograd::VariableType::(anonymous namespace)::mean_dim(c10::DispatchKeySet)"),
            "mean_dim");
  EXPECT_EQ(OperationOfFunction("at::native::mean(at::Tensor const&)"), "");
}

TEST(AutogradNamesTest, AnOperationMakesTheNodesOfItsName) {
  const std::pair<const char*, const char*> makes[] = {
      {"addmm", "AddmmBackward0"},
      {"mean_dim", "MeanBackward1"},
      {"add_Tensor", "AddBackward0"},
      {"pow_Tensor_Scalar", "PowBackward0"},
      {"_log_softmax", "LogSoftmaxBackward0"},
      {"_to_copy", "ToCopyBackward0"},
      {"nll_loss_forward", "NllLossBackward0"},
      {"max_pool2d_with_indices", "MaxPool2DWithIndicesBackward0"},
      {"native_layer_norm", "NativeLayerNormBackward0"},
      {"_scaled_dot_product_flash_attention", "ScaledDotProductFlashAttentionBackward0"},
      {"sum_dim_IntList", "SumBackward1"},
  };
  for (const auto& [operation, node] : makes) EXPECT_TRUE(Makes(operation, node)) << operation << " " << node;
  const std::pair<const char*, const char*> others[] = {
      {"addmm", "AddBackward0"},
      {"add_Tensor", "AddmmBackward0"},
      {"max_pool2d_with_indices", "MaxBackward0"},
      {"mm", "AddmmBackward0"},
      {"native_layer_norm", "NativeDropoutBackward0"},
      {"addmm", "AccumulateGrad"},
      {"addmm", "Backward0"},
  };
  for (const auto& [operation, node] : others) EXPECT_FALSE(Makes(operation, node)) << operation << " " << node;
}

// A record of a training step, event by event.
class Recording {
 public:
  // The size of what comes next; without it every allocation has one of its own.
  Recording& OfBytes(std::uint64_t bytes) {
    bytes_ = bytes;
    return *this;
  }
  // An operation of the forward pass that allocates, called from a line of Python.
  void Forward(const std::string& operation, std::uint32_t line, const std::string& file = "/srv/training/train.py") {
    Allocate({Native("at::empty"), Native("torch::autograd::VariableType::(anonymous namespace)::" + operation + "(x)"),
              Python(file, line), Python("/srv/training/train.py", 1)},
             1);
  }
  // An allocation of a node, in autograd's thread. place: tells the allocations of one run of the node apart.
  void Backward(const std::string& node, const std::string& place = "a", std::uint32_t thread = 2) {
    Allocate({Native("at::empty " + place), Native("torch::autograd::generated::" + node + "::apply(x)"),
              Native("torch::autograd::Engine::evaluate_function(x)")},
             thread);
  }
  // A recomputation in a hook of the backward pass.
  void Recomputed(const std::string& operation, std::uint32_t line) {
    Allocate({Native("at::empty"), Native("torch::autograd::VariableType::(anonymous namespace)::" + operation + "(x)"),
              Python("/srv/training/train.py", line), Native("torch::autograd::generated::TanhBackward0::apply(x)"),
              Native("torch::autograd::Engine::evaluate_function(x)")},
             2);
  }

  Snapshot& Explain() {
    ExplainBackward(snapshot_);
    EXPECT_FALSE(FindInconsistency(snapshot_).has_value());
    return snapshot_;
  }
  // The forward line of each backward event, 0 where none is told.
  std::vector<std::uint32_t> Lines() {
    Explain();
    std::vector<std::uint32_t> lines;
    for (std::size_t i = 0; i < snapshot_.events.size(); ++i) {
      const Stack& stack = snapshot_.stacks[snapshot_.events.stack[i]];
      if (stack.backward == 0) continue;
      std::uint32_t line = 0;
      for (const std::uint32_t frame : stack.frames) {
        if (line == 0 && snapshot_.strings[snapshot_.frames[frame].reason].starts_with(kForwardOf)) {
          line = snapshot_.frames[frame].line;
        }
      }
      lines.push_back(line);
    }
    return lines;
  }

 private:
  std::uint32_t String(const std::string& text) {
    for (std::uint32_t i = 0; i < snapshot_.strings.size(); ++i) {
      if (snapshot_.strings[i] == text) return i;
    }
    snapshot_.strings.push_back(text);
    return static_cast<std::uint32_t>(snapshot_.strings.size() - 1);
  }
  std::uint32_t Add(const Frame& frame) {
    for (std::uint32_t i = 0; i < snapshot_.frames.size(); ++i) {
      if (snapshot_.frames[i] == frame) return i;
    }
    snapshot_.frames.push_back(frame);
    return static_cast<std::uint32_t>(snapshot_.frames.size() - 1);
  }
  std::uint32_t Native(const std::string& function) {
    Frame frame;
    frame.kind = FrameKind::kNative;
    frame.function = String(function);
    return Add(frame);
  }
  std::uint32_t Python(const std::string& file, std::uint32_t line) {
    Frame frame;
    frame.kind = FrameKind::kPython;
    frame.function = String("forward");
    frame.file = String(file);
    frame.line = line;
    return Add(frame);
  }
  void Allocate(std::vector<std::uint32_t> frames, std::uint32_t thread) {
    Stack stack;
    stack.frames = std::move(frames);
    std::uint32_t index = 0;
    while (index < snapshot_.stacks.size() && snapshot_.stacks[index] != stack) ++index;
    if (index == snapshot_.stacks.size()) snapshot_.stacks.push_back(stack);
    while (snapshot_.threads.size() < thread) snapshot_.threads.emplace_back();
    Events& events = snapshot_.events;
    events.type.push_back(EventType::kAllocate);
    events.time_ns.push_back(static_cast<std::int64_t>(events.size()));
    events.id.push_back(events.size());
    events.address.push_back(events.size() * 512);
    events.bytes.push_back(bytes_ != 0 ? bytes_ : events.size() * 1024);
    bytes_ = 0;
    events.stream.push_back(0);
    events.stack.push_back(index);
    events.thread.push_back(thread);
    events.device.push_back(0);
    events.kind.push_back(AllocationKind::kDevice);
    events.flags.push_back(0);
    events.result.push_back(0);
    LiveAllocation live;
    live.id = events.id.back();
    live.address = events.address.back();
    live.bytes = 512;
    live.stack = index;
    live.thread = thread;
    live.kind = AllocationKind::kDevice;
    snapshot_.live.push_back(live);
  }

  Snapshot snapshot_;
  std::uint64_t bytes_ = 0;
};

TEST(BackwardTest, NodesPairOffWithOperationsInReverse) {
  Recording recording;
  recording.Forward("addmm", 10);
  recording.Forward("relu", 11);
  recording.Forward("addmm", 12);
  recording.Forward("addmm", 12);  // the same line again: a loop
  recording.Backward("AddmmBackward0", "a");
  recording.Backward("AddmmBackward0", "b");  // the same run of the node
  recording.Backward("AddmmBackward0", "a");
  recording.Backward("ReluBackward0");
  recording.Backward("AddmmBackward0", "a");
  EXPECT_EQ(recording.Lines(), (std::vector<std::uint32_t>{12, 12, 12, 11, 10}));
}

TEST(BackwardTest, LoopsInsideOfAnOperationAreOneExecution) {
  Recording recording;
  for (const std::uint32_t line : {10u, 11u}) {
    for (int image = 0; image < 4; ++image) recording.OfBytes(4096).Forward("convolution", line);
  }
  for (int layer = 0; layer < 2; ++layer) {
    recording.Backward("ConvolutionBackward0", "gradient of the input");
    for (int image = 0; image < 4; ++image) recording.OfBytes(4096).Backward("ConvolutionBackward0", "workspace");
    recording.Backward("ConvolutionBackward0", "gradient of the weight");
  }
  std::vector<std::uint32_t> expected(6, 11);
  expected.resize(12, 10);
  EXPECT_EQ(recording.Lines(), expected);
}

TEST(BackwardTest, EveryPassHasItsOwnOperations) {
  Recording recording;
  for (std::uint32_t step = 0; step < 3; ++step) {
    recording.Forward("addmm", 10 + step);
    recording.Forward("mul_Tensor", 20, "/lib/python3.11/site-packages/torch/optim/sgd.py");  // makes no node
    recording.Forward("mul_Tensor", 30 + step);
    recording.Backward("MulBackward0");
    recording.Backward("AddmmBackward0");
  }
  EXPECT_EQ(recording.Lines(), (std::vector<std::uint32_t>{30, 10, 31, 11, 32, 12}));
}

TEST(BackwardTest, UnequalNumbersAreToldOnlyWhenThereIsOneLine) {
  Recording recording;
  recording.Forward("addmm", 10);
  recording.Forward("addmm", 11);
  recording.Forward("addmm", 12);
  recording.Forward("relu", 13);
  recording.Forward("relu", 13);
  recording.Backward("ReluBackward0");
  recording.Backward("AddmmBackward0");
  recording.Backward("GeluBackward0");  // nothing made it
  recording.Backward("AddmmBackward0");
  EXPECT_EQ(recording.Lines(), (std::vector<std::uint32_t>{13, 0, 0, 0}));
}

TEST(BackwardTest, NothingIsToldWhenTwoThreadsRanNodes) {
  Recording recording;
  recording.Forward("addmm", 10);
  recording.Forward("addmm", 11);
  recording.Backward("AddmmBackward0", "a", 2);
  recording.Backward("AddmmBackward0", "a", 3);
  EXPECT_EQ(recording.Lines(), (std::vector<std::uint32_t>{0, 0}));
}

TEST(BackwardTest, RecomputationsHaveLinesOfTheirOwn) {
  Recording recording;
  recording.Forward("tanh", 10);
  recording.Recomputed("addmm", 40);
  recording.Backward("TanhBackward0");
  Snapshot& snapshot = recording.Explain();
  const Stack& stack = snapshot.stacks[snapshot.events.stack[1]];
  EXPECT_EQ(snapshot.strings[stack.backward], "TanhBackward0");
  EXPECT_EQ(stack.frames.size(), 5u);  // nothing was added
}

TEST(BackwardTest, BlocksFollowTheirEventsAndTheReasonSaysSo) {
  Recording recording;
  recording.Forward("addmm", 10);
  recording.Backward("AddmmBackward0");
  Snapshot& snapshot = recording.Explain();
  EXPECT_EQ(snapshot.live[1].stack, snapshot.events.stack[1]);
  EXPECT_EQ(snapshot.live[0].stack, snapshot.events.stack[0]);
  const Stack& stack = snapshot.stacks[snapshot.live[1].stack];
  ASSERT_EQ(stack.frames.size(), 5u);
  EXPECT_EQ(snapshot.strings[stack.no_python], kBackwardThread);
  EXPECT_EQ(snapshot.strings[snapshot.frames[stack.frames[3]].reason], "forward pass of AddmmBackward0");
  EXPECT_EQ(snapshot.frames[stack.frames[3]].line, 10u);
  EXPECT_EQ(snapshot.frames[stack.frames[4]].line, 1u);
}

TEST(BackwardTest, ASecondCallChangesNothing) {
  Recording recording;
  recording.Forward("addmm", 10);
  recording.Backward("AddmmBackward0");
  recording.Backward("SumBackward0");
  const Snapshot first = recording.Explain();
  const Snapshot& second = recording.Explain();
  EXPECT_TRUE(first.strings == second.strings && first.frames == second.frames && first.stacks == second.stacks &&
              first.events.stack == second.events.stack);
}

}  // namespace
}  // namespace cuheap::analysis
