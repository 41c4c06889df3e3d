// What would help a training in miniature, to the byte: four layers of one module, Adam, an evaluation if asked for.
#include "analysis/reports/remedies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/reports/report.h"
#include "analysis/reports/report_text.h"
#include "tests/analysis/reports/synthetic_pytorch.h"

namespace cuheap::analysis {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr int kLayers = 4, kSteps = 4;

struct Options {
  bool adam = true;
  bool keep_gradients = false;   // zero_grad(set_to_none=False)
  std::uint64_t evaluation = 0;  // bytes of each activation
  bool evaluation_keeps = true;
  std::uint64_t state = kMiB;    // of Adam, for each
  std::uint64_t weights = kMiB;  // of each layer
  std::uint64_t logits = 0;      // held until the next pass replaces them
  std::uint64_t temporary = 0;  // of the optimizer's step
  std::string ranks = "";       // WORLD_SIZE
};

class Training {
 public:
  explicit Training(const Options& options) : options_(options), training_(program_) {
    call_ = program_.AddPythonFrame("/v/lib/python3.11/site-packages/torch/nn/modules/module.py", 1750, "_call_impl");
    for (int layer = 0; layer < kLayers; ++layer) training_.Tensor(Setup(), options_.weights);
    for (int step = 0; step < kSteps; ++step) Step();
    snapshot_ = program_.Snapshot();
    if (!options_.ranks.empty()) snapshot_.process.launcher["WORLD_SIZE"] = options_.ranks;
    report_.emplace(MakeReport(snapshot_));
  }

  const Report& report() const { return *report_; }
  const Remedies& remedies() const { return report_->remedies.front(); }
  const Remedy* Find(RemedyKind kind) const {
    const auto found = std::find_if(remedies().entries.begin(), remedies().entries.end(),
                                    [&](const Remedy& remedy) { return remedy.kind == kind; });
    return found == remedies().entries.end() ? nullptr : &*found;
  }
  // Of the peak with the remedy, in MiB; 0: it is not offered.
  double PeakWith(RemedyKind kind) const {
    const Remedy* remedy = Find(kind);
    return remedy == nullptr ? 0 : static_cast<double>(remedy->after.bytes) / kMiB;
  }

 private:
  std::uint32_t Setup() {
    const std::uint32_t apply =
        program_.AddPythonFrame("/v/lib/python3.11/site-packages/torch/nn/modules/module.py", 900, "Module._apply");
    return training_.Stack("to", {apply, training_.Script(5, "main")});
  }
  std::uint32_t InBlock(const std::string& operation, std::uint32_t line, std::uint32_t from) {
    return training_.Stack(operation, {training_.Script(line, "Block.forward"), call_,
                                       training_.Script(50, "Net.forward"), call_, training_.Script(from, "main")});
  }

  // As the loader of a snapshot marks it.
  std::uint32_t Node(const std::string& name) {
    const std::uint32_t stack = training_.Backward(name);
    Snapshot& snapshot = program_.raw();
    if (snapshot.stacks[stack].backward == 0) {
      snapshot.stacks[stack].backward = static_cast<std::uint32_t>(snapshot.strings.size());
      snapshot.strings.push_back(name);
    }
    return stack;
  }

  std::vector<std::uint64_t> Forward(std::uint32_t from, std::uint64_t bytes) {
    std::vector<std::uint64_t> saved;
    for (int layer = 0; layer < kLayers; ++layer) {
      saved.push_back(training_.Tensor(InBlock("linear", 20, from), bytes));
      saved.push_back(training_.Tensor(InBlock("relu", 21, from), bytes));
    }
    return saved;
  }

  void Backward(const std::vector<std::uint64_t>& saved) {
    for (std::size_t layer = kLayers; layer > 0; --layer) {
      const std::uint64_t passed_on = training_.Tensor(Node("ReluBackward0"), 8 * kMiB);
      const std::uint64_t gradient = training_.Tensor(Node("AddmmBackward0"), kMiB);
      if (gradients_.size() < kLayers)
        gradients_.push_back(gradient);
      else
        training_.Free(gradient);  // was added
      training_.Free(passed_on);
      training_.Free(saved[2 * layer - 1]);
      training_.Free(saved[2 * layer - 2]);
    }
  }

  void Step() {
    if (!options_.keep_gradients) training_.Free(std::exchange(gradients_, {}));
    const std::uint64_t inputs = training_.Tensor(training_.Loop("randn", 40), kMiB);
    const std::vector<std::uint64_t> saved = Forward(41, 8 * kMiB);
    if (options_.logits != 0) {
      const std::uint64_t logits = training_.Tensor(InBlock("linear", 22, 41), options_.logits);
      if (logits_ != 0) training_.Free(logits_);
      logits_ = logits;
    }
    Backward(saved);
    if (options_.adam && state_.empty()) {
      for (int i = 0; i < 2 * kLayers; ++i)
        state_.push_back(training_.Tensor(training_.InOptimizer("zeros_like", 43), options_.state));
    }
    training_.Temporary(training_.InOptimizer("_foreach_sqrt", 43), std::max<std::uint64_t>(512, options_.temporary));
    training_.Free(inputs);
    if (options_.evaluation != 0) Evaluate();
  }

  void Evaluate() {
    if (options_.evaluation_keeps) return training_.Free(Forward(45, options_.evaluation));
    std::uint64_t before = 0;
    for (int layer = 0; layer < kLayers; ++layer) {
      for (const char* operation : {"linear", "relu"}) {
        const std::uint64_t made = training_.Tensor(InBlock(operation, 20, 45), options_.evaluation);
        if (before != 0) training_.Free(before);
        before = made;
      }
    }
    training_.Free(before);
  }

  Options options_;
  SyntheticProgram program_;
  SyntheticTraining training_;
  std::uint32_t call_ = 0;
  std::uint64_t logits_ = 0;
  std::vector<std::uint64_t> gradients_, state_;
  Snapshot snapshot_;
  std::optional<Report> report_;
};

// 4 of weights, 8 of state, 1 of inputs, 64 of activations, and in the backward pass 8 and a gradient.
constexpr double kPeak = 86;

TEST(Remedies, PeakAsItWas) {
  const Training training({});
  ASSERT_EQ(training.report().remedies.size(), 1U);
  EXPECT_EQ(training.remedies().peak.bytes, kPeak * kMiB);
  EXPECT_EQ(training.remedies().peak.phase, Phase::kBackward);
  EXPECT_EQ(training.remedies().peak.step, 2U);
}

TEST(Remedies, HalfTheBatchHalvesWhatTheBatchMakes) {
  const Training training({});
  EXPECT_EQ(training.PeakWith(RemedyKind::kSmallerBatch), 4 + 8 + 0.5 + 32 + 4 + 1);
}

TEST(Remedies, WithAccumulationGradientsAreLiveInTheSecondHalf) {
  const Training training({});
  EXPECT_EQ(training.PeakWith(RemedyKind::kAccumulation), 4 + 8 + 0.5 + 32 + 4 + 4 + 1);
}

TEST(Remedies, CheckpointsOfTheLayersKeepTheirResults) {
  const Training training({});
  const Remedy* remedy = training.Find(RemedyKind::kCheckpointing);
  ASSERT_NE(remedy, nullptr);
  EXPECT_EQ(remedy->target, "Block.forward");
  EXPECT_EQ(remedy->count, static_cast<std::uint32_t>(kLayers));
  EXPECT_EQ(remedy->added, 8 * kMiB) << "what one layer brings back";
  EXPECT_EQ(remedy->after.bytes, (4 + 8 + 1 + 4 * 8 + 8 + 8 + 1) * kMiB);
  EXPECT_EQ(remedy->saved_at_old_peak, 3 * 8 * kMiB);
}

TEST(Remedies, HalfPrecisionHalvesActivationsAndCopiesWeights) {
  const Training training({});
  // All but the inputs: those are cast as well, 0.5 beside 1. Copies of 4 weights, and of the gradient.
  EXPECT_EQ(training.PeakWith(RemedyKind::kMixedPrecision), 4 + 8 + 1 + 0.5 + 32 + 4 + 1 + 4 * 0.5 + 0.5);
}

TEST(Remedies, OptimizersWithLessState) {
  const Training training({});
  EXPECT_EQ(training.PeakWith(RemedyKind::kPlainSgd), kPeak - 8);
  EXPECT_EQ(training.PeakWith(RemedyKind::kMomentumSgd), kPeak - 4);
  EXPECT_NEAR(training.PeakWith(RemedyKind::kEightBitAdam), kPeak - 6, 0.1);
  EXPECT_EQ(training.Find(RemedyKind::kFusedOptimizer), nullptr) << "its step is not where the peak is";
}

TEST(Remedies, NothingForAnOptimizerWithoutState) {
  const Training training({.adam = false});
  for (const RemedyKind kind :
       {RemedyKind::kPlainSgd, RemedyKind::kMomentumSgd, RemedyKind::kEightBitAdam, RemedyKind::kShardOptimizer})
    EXPECT_EQ(training.Find(kind), nullptr) << static_cast<int>(kind);
}

TEST(Remedies, ShardsAreEqualParts) {
  const Training training({.ranks = "8"});
  EXPECT_EQ(training.PeakWith(RemedyKind::kShardOptimizer), kPeak - 8 + 1);
  ASSERT_NE(training.Find(RemedyKind::kShardOptimizer), nullptr);
  EXPECT_EQ(training.Find(RemedyKind::kShardOptimizer)->count, 8U);
  // Weights are 4 - 3.5, and two whole ones are there.
  EXPECT_FALSE(training.Find(RemedyKind::kShardOptimizer)->example);
  EXPECT_EQ(training.PeakWith(RemedyKind::kShardParameters), kPeak - 7 - 3.5 + 2);
}

TEST(Remedies, ARunOfOneProcessIsToldOfShardsOnlyIfNothingElseSavesAsMuch) {
  for (const char* ranks : {"", "1"}) {
    const Training training({.ranks = ranks});
    for (const RemedyKind kind :
         {RemedyKind::kShardOptimizer, RemedyKind::kShardGradients, RemedyKind::kShardParameters})
      EXPECT_EQ(training.Find(kind), nullptr) << "half the batch saves more";
  }
  const Training states({.state = 40 * kMiB});
  ASSERT_FALSE(states.remedies().entries.empty());
  const Remedy& most = states.remedies().entries.front();
  EXPECT_EQ(most.kind, RemedyKind::kPlainSgd) << "no state at all is less than an eighth";
  EXPECT_EQ(states.Find(RemedyKind::kShardOptimizer), nullptr);
  const Training weights({.adam = false, .weights = 200 * kMiB});
  ASSERT_FALSE(weights.remedies().entries.empty());
  EXPECT_EQ(weights.remedies().entries.front().kind, RemedyKind::kShardParameters);
  EXPECT_TRUE(weights.remedies().entries.front().example);
  EXPECT_EQ(weights.remedies().entries.front().count, 8U);
  const std::string text = RenderText(weights.report(), {});
  EXPECT_NE(text.find("over 8 ranks (that many GPUs as an example)"), std::string::npos) << text;
  EXPECT_EQ(weights.Find(RemedyKind::kShardOptimizer), nullptr);
}

// Until the next two operations are over, and again for its node.
TEST(Remedies, SavedTensorsOnTheHost) {
  const Training training({});
  const Remedy* remedy = training.Find(RemedyKind::kOffloading);
  ASSERT_NE(remedy, nullptr);
  EXPECT_EQ(remedy->added, 64 * kMiB) << "is moved";
  // In the last node of the backward pass: a layer's two activations, what is passed on, all gradients, and the copy of
  // a weight. (In the forward pass three activations are there at a time.)
  EXPECT_EQ(remedy->after.bytes, (4 + 8 + 1 + 2 * 8 + 8 + 4 + 1) * kMiB);
  EXPECT_EQ(remedy->after.phase, Phase::kBackward);
}

TEST(Remedies, SavingsUnderThreePercentAreNotTold) {
  // The temporaries save what they take above the backward pass, 2 and 3 of 86 + 2 and 86 + 3.
  EXPECT_EQ(Training({.temporary = 71 * kMiB}).Find(RemedyKind::kFusedOptimizer), nullptr);
}

TEST(Remedies, GradientsThatAreKeptAreDroppedBehindTheStep) {
  const Training kept({.keep_gradients = true});
  EXPECT_EQ(kept.remedies().peak.bytes, (kPeak + 4) * kMiB);
  EXPECT_EQ(kept.PeakWith(RemedyKind::kDropGradients), kPeak);
  EXPECT_EQ(Training({}).Find(RemedyKind::kDropGradients), nullptr) << "they are dropped already";
}

TEST(Remedies, EvaluationWithoutGradients) {
  const Training keeps({.evaluation = 40 * kMiB});
  EXPECT_EQ(keeps.remedies().peak.bytes, (4 + 8 + 4 + 8 * 40) * kMiB);
  EXPECT_EQ(keeps.PeakWith(RemedyKind::kNoGrad), 4 + 8 + 4 + 3 * 40);
  const Training frees({.evaluation = 60 * kMiB, .evaluation_keeps = false});
  EXPECT_EQ(frees.remedies().peak.bytes, (4 + 8 + 4 + 120) * kMiB);
  EXPECT_EQ(frees.Find(RemedyKind::kNoGrad), nullptr);
}

TEST(Remedies, OutputsThatOutliveTheBackwardPass) {
  const Training training({.logits = 30 * kMiB, .temporary = 80 * kMiB});
  // The new ones are made before the old ones are replaced.
  EXPECT_EQ(training.remedies().peak.bytes, (4 + 8 + 1 + 64 + 30 + 30) * kMiB);
  EXPECT_EQ(training.remedies().peak.phase, Phase::kForward);
  EXPECT_EQ(training.PeakWith(RemedyKind::kFreeEarlier), kPeak + 30) << "the backward pass is the highest then";
  const Remedy* remedy = training.Find(RemedyKind::kFreeEarlier);
  ASSERT_NE(remedy, nullptr);
  EXPECT_EQ(remedy->saved_at_old_peak, 30 * kMiB);
}

TEST(Remedies, AreToldMostFirstWithTheirPlace) {
  const Training training({});
  ASSERT_FALSE(training.remedies().entries.empty());
  EXPECT_TRUE(std::is_sorted(training.remedies().entries.begin(), training.remedies().entries.end(),
                             [](const Remedy& a, const Remedy& b) { return a.saved > b.saved; }));
  for (const Remedy& remedy : training.remedies().entries) {
    EXPECT_GE(100 * remedy.saved, 3 * training.remedies().peak.bytes);
    EXPECT_EQ(remedy.saved + remedy.after.bytes, training.remedies().peak.bytes);
    std::uint64_t sum = 0;
    for (const std::uint64_t bytes : remedy.after.by_category) sum += bytes;
    EXPECT_EQ(sum, remedy.after.bytes);
  }
  const std::string text = RenderText(training.report(), {});
  EXPECT_NE(text.find("WHAT WOULD HELP"), std::string::npos) << text;
  EXPECT_NE(text.find("activation checkpointing of Block, 4 calls a pass, called at train.py:50"), std::string::npos)
      << text;
}

TEST(Remedies, NoneWithoutAFramework) {
  SyntheticProgram program;
  program.Free(program.Malloc(program.Line("a.cc", 1, "main"), kMiB));
  const Snapshot snapshot = program.Snapshot();
  EXPECT_TRUE(MakeReport(snapshot).remedies.empty());
}

}  // namespace
}  // namespace cuheap::analysis
