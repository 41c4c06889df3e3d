#include "analysis/reports/categories.h"

#include <gmock/gmock.h>

#include <map>
#include <string>

#include "analysis/reports/report_json.h"
#include "analysis/reports/report_text.h"
#include "tests/analysis/reports/leak_fixture.h"
#include "tests/analysis/reports/synthetic_pytorch.h"

namespace cuheap::analysis {
namespace {

using testing::HasSubstr;
using testing::Not;

class CategoriesTest : public LeakFixture {
 protected:
  // The rule of every block, by the order of their allocation.
  std::vector<std::string> Rules() {
    snapshot_ = program_.Snapshot();
    const Blocks blocks = JoinBlocks(snapshot_);
    const LineTable lines(snapshot_, {});
    const FrameworkStacks stacks(snapshot_);
    const Categories categories(snapshot_, blocks, lines, stacks, FindSteps(snapshot_, blocks, stacks));
    std::vector<std::string> rules;
    for (const Block& block : blocks.program) {
      EXPECT_EQ(categories.Of(block).category, CategoryOf(categories.Of(block).rule));
      rules.emplace_back(Word(categories.Of(block).rule));
    }
    return rules;
  }
  std::string RuleOf(std::uint64_t id) { return Rules().at(id - 1); }

  std::uint32_t Python(const std::string& file, const std::string& function) {
    return program_.AddPythonFrame("/v/lib/python3.11/site-packages" + file, 100, function);
  }
  // In thread 2, from now on: ids of threads are those of the snapshot.
  void LastEventIn(std::uint32_t thread) { program_.raw().events.thread.SetBack(thread); }

  SyntheticTraining training_{program_};
  std::uint32_t to_ = training_.Stack(
      "to_dtype_layout", {Python("/torch/nn/modules/module.py", "Module._apply"), training_.Script(30, "main")});
  Snapshot snapshot_;
};

TEST_F(CategoriesTest, ATrainingHasAllOfThem) {
  training_.Tensor(to_, kMiB);
  for (int step = 0; step < 4; ++step) {
    const std::uint64_t batch = training_.Tensor(training_.Loop("randn", 40), kMiB);
    training_.BackwardPass(training_.ForwardPass(41));
    training_.Temporary(training_.Backward("SumBackward0"), 512);
    training_.OptimizerStep(43);
    training_.Free(batch);
  }
  const std::vector<std::string> rules = Rules();
  // Weights; batch; forward: linear (freed before relu allocates), relu, linear, relu, linear (its result is freed
  // last), log_softmax, nll_loss.
  EXPECT_THAT(std::vector<std::string>(rules.begin(), rules.begin() + 9),
              testing::ElementsAre("module_setup", "data", "one_operation", "saved_for_backward", "one_operation",
                                   "saved_for_backward", "forward", "saved_for_backward", "one_operation"));
  // Two gradients, which live until the next zero_grad(); what the pass needs for itself; four tensors of state.
  EXPECT_THAT(
      std::vector<std::string>(rules.begin() + 9, rules.begin() + 18),
      testing::ElementsAre("backward_held", "backward_held", "within_backward", "optimizer_held", "optimizer_held",
                           "optimizer_held", "optimizer_held", "within_optimizer", "within_optimizer"));
}

// Nothing is allocated between the pass and zero_grad(): who frees tells.
TEST_F(CategoriesTest, GradientsThatAreFreedBeforeTheNextAllocationAreToldByTheThread) {
  for (int step = 0; step < 3; ++step) {
    const std::uint64_t gradient = training_.Tensor(training_.Backward("AddmmBackward0"), kMiB);
    LastEventIn(2);
    program_.Free(training_.Tensor(training_.Backward("TBackward0"), kMiB));
    LastEventIn(2);
    program_.raw().events.thread.Set(program_.raw().events.size() - 2, 2);
    program_.Free(gradient);  // by the program's thread
    training_.Temporary(training_.Forward("linear", 20, 41), kMiB);
  }
  const std::vector<std::string> rules = Rules();
  EXPECT_EQ(rules[0], "backward_held");
  EXPECT_EQ(rules[1], "within_backward");
}

TEST_F(CategoriesTest, TheLastStepIsJudgedLikeThoseBefore) {
  std::uint64_t last = 0;
  for (int step = 0; step < 3; ++step) {
    training_.Temporary(training_.Forward("linear", 20, 41), kMiB);
    const std::uint64_t first = training_.Tensor(training_.InOptimizer("_foreach_sqrt", 43), kMiB);
    last = training_.Tensor(training_.InOptimizer("_foreach_div", 43), kMiB);
    training_.Free({first, last});
  }
  EXPECT_EQ(RuleOf(last), "within_optimizer");
}

TEST_F(CategoriesTest, AForwardPassWithinABackwardPassIsRecomputed) {
  const std::uint32_t engine =
      program_.AddFrame("", 0, "torch::autograd::Engine::thread_main()",
                        program_.AddModule("/v/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so"));
  const std::uint32_t recompute = training_.Stack(
      "relu",
      {training_.Script(23, "Net.forward"), Python("/torch/nn/modules/module.py", "Module._call_impl"), engine});
  const std::uint64_t kept = training_.Tensor(recompute, kMiB);
  training_.Temporary(training_.Backward("AddmmBackward0"), kMiB);
  training_.Free(kept);
  EXPECT_EQ(RuleOf(kept), "recomputed");
}

// With a stack so deep that autograd's frames are missing.
TEST_F(CategoriesTest, CheckpointsRecompute) {
  const std::uint64_t weights = training_.Tensor(to_, kMiB);
  const std::uint64_t recomputed = training_.Tensor(
      training_.Stack("relu",
                      {training_.Script(23, "Net.forward"), Python("/torch/nn/modules/module.py", "Module._call_impl"),
                       Python("/torch/utils/checkpoint.py", "_checkpoint_hook.__init__.<locals>.unpack_hook")}),
      kMiB);
  const std::uint64_t temporary = training_.Tensor(training_.Backward("AddmmBackward0"), kMiB);
  training_.Free({recomputed, temporary});
  training_.Tensor(training_.Loop("randn", 40), kMiB);
  EXPECT_EQ(RuleOf(recomputed), "recomputed");
  EXPECT_EQ(RuleOf(temporary), "within_backward");
  EXPECT_EQ(RuleOf(weights), "module_setup");
}

TEST_F(CategoriesTest, PartsOfASetUp) {
  const std::uint32_t main = training_.Script(30, "main");
  const std::uint32_t init = training_.Script(12, "Net.__init__");
  const std::map<std::string, std::uint64_t> ids = {
      {"constructor", training_.Tensor(training_.Stack("randn", {init, main}), kMiB)},
      {"checkpoint",
       training_.Tensor(training_.Stack("empty", {Python("/torch/serialization.py", "load"), main}), kMiB)},
      {"optimizer_loaded",
       training_.Tensor(training_.Stack("to", {Python("/torch/optim/optimizer.py", "Optimizer.load_state_dict"), main}),
                        kMiB)},
      {"constant_in_forward", training_.Tensor(training_.Forward("arange", 20, 41), kMiB)},
      {"data", training_.Tensor(training_.Loop("to", 40), kMiB)},
      {"collective",
       training_.Tensor(
           training_.Stack("empty", {Python("/torch/distributed/distributed_c10d.py", "all_gather"), main}), kMiB)},
      {"unknown_part", training_.Tensor(program_.Line("lib.cc", 3, "Make"), kMiB)},
      {"no_stack", training_.Tensor(0, kMiB)},
  };
  for (const auto& [rule, id] : ids) EXPECT_EQ(RuleOf(id), rule);
}

// A program of its own: libraries, and else by the steps.
TEST_F(CategoriesTest, WithoutPyTorchStepsTell) {
  const std::uint32_t nccl = program_.AddModule("/usr/lib/x86_64-linux-gnu/libnccl.so.2");
  const std::uint32_t blas = program_.AddModule("/usr/local/cuda/lib64/libcublas.so.13");
  const auto of_library = [&](const std::string& function, std::uint32_t module) {
    return program_.AddStack({program_.AddFrame("", 0, function, module)});
  };
  const std::uint64_t ring = program_.Malloc(of_library("ncclCommInitRank", nccl), kMiB);
  const std::uint64_t workspace = program_.Malloc(of_library("cublasCreate_v2", blas), kMiB);
  const std::uint64_t weights = program_.Malloc(program_.Line("train.cc", 10, "Load"), kMiB);
  std::uint64_t scratch = 0, carried = 0;
  for (int step = 0; step < 5; ++step) {
    const std::uint64_t before = carried;
    scratch = program_.Malloc(program_.Line("train.cc", 20, "Step"), kMiB);
    program_.Free(scratch);
    carried = program_.Malloc(program_.Line("train.cc", 21, "Step"), kMiB);
    if (before != 0) program_.Free(before);
    program_.Mark();
  }
  EXPECT_EQ(RuleOf(ring), "collective_library");
  EXPECT_EQ(RuleOf(workspace), "library");
  EXPECT_EQ(RuleOf(weights), "set_up");
  EXPECT_EQ(RuleOf(scratch), "within_step");
  EXPECT_EQ(RuleOf(carried), "across_steps");
}

TEST_F(CategoriesTest, WithoutStepsNothingIsClaimed) {
  const std::uint64_t block = program_.Malloc(program_.Line("train.cc", 10, "Load"), kMiB);
  EXPECT_EQ(RuleOf(block), "outside_of_steps");
}

TEST_F(CategoriesTest, EveryRuleHasWordsOfItsOwn) {
  std::map<std::string_view, int> words, sentences;
  for (std::size_t i = 0; i < kCategoryRules; ++i) {
    const auto rule = static_cast<CategoryRule>(i);
    EXPECT_EQ(++words[Word(rule)], 1) << i;
    EXPECT_EQ(++sentences[Explain(rule)], 1) << i;
    EXPECT_EQ(rule == CategoryRule::kNoStack, Word(rule) == "no_stack");
  }
}

class CategoryTotalsTest : public LeakFixture {
 protected:
  SyntheticTraining training_{program_};
};

TEST_F(CategoryTotalsTest, AtThePeakAtTheEndAndAllAlong) {
  const std::uint32_t apply =
      program_.AddPythonFrame("/v/lib/python3.11/site-packages/torch/nn/modules/module.py", 900, "Module._apply");
  training_.Tensor(training_.Stack("to", {apply, training_.Script(30, "main")}), 4 * kMiB);
  for (int step = 0; step < 3; ++step) training_.BackwardPass(training_.ForwardPass(41));
  training_.ZeroGrad();
  training_.Temporary(training_.Loop("randn", 40), kMiB);
  const Report& report = Now();
  ASSERT_EQ(report.totals.size(), 1u);
  const ScopeTotals& totals = report.totals[0];
  const ScopeCategories& categories = report.categories_of(totals);
  ASSERT_TRUE(categories.peak_known);
  EXPECT_EQ(categories.at_peak.bytes(), totals.peak_bytes);
  EXPECT_EQ(categories.at_peak.of(Category::kParameters).bytes, 4 * kMiB);
  EXPECT_EQ(categories.at_peak.of(Category::kGradients).bytes, 2 * SyntheticTraining::kWeights);
  EXPECT_EQ(categories.at_peak.of(CategoryRule::kSavedForBackward).bytes,
            2 * SyntheticTraining::kHidden + SyntheticTraining::kLogits);
  EXPECT_EQ(categories.at_end.bytes(), totals.live_bytes);
  EXPECT_EQ(categories.at_end.of(Category::kParameters).blocks, 1u);
  ASSERT_EQ(categories.curve.size(), totals.curve.size());
  for (std::size_t i = 0; i < totals.curve.size(); ++i) {
    std::uint64_t sum = 0;
    for (const std::uint64_t bytes : categories.curve[i]) sum += bytes;
    EXPECT_EQ(sum, totals.curve[i].bytes) << i;
  }
  EXPECT_THAT(RenderText(report), HasSubstr("gradients: made in a backward pass, and outlived it"));
  EXPECT_THAT(RenderJson(report), HasSubstr("\"category\": \"gradients\""));
  EXPECT_THAT(RenderJson(report), HasSubstr("\"rule\": \"saved_for_backward\""));
}

TEST_F(CategoryTotalsTest, WhatNoRuleTellsGetsNoTable) {
  program_.Malloc(program_.Line("train.cc", 10, "Load"), kMiB);
  EXPECT_THAT(RenderText(Now()), Not(HasSubstr("category, at the peak")));
}

// The peak lies before the events that were kept.
TEST_F(CategoryTotalsTest, APeakOutsideTheWindowHasNoCategories) {
  const std::uint64_t block = training_.Tensor(training_.Loop("randn", 40), 64 * kMiB);
  training_.Free(block);
  program_.ForgetEvents();
  training_.Tensor(training_.Loop("randn", 40), kMiB);
  const Report& report = Now();
  EXPECT_FALSE(report.categories_of(report.totals[0]).peak_known);
  EXPECT_THAT(RenderText(report), Not(HasSubstr("category, at the peak")));
  EXPECT_THAT(RenderJson(report), HasSubstr("\"at_peak\": null"));
}

}  // namespace
}  // namespace cuheap::analysis
