// PyTorch programs that were refused memory: why, and what is no leak although it only grew.
#include <gmock/gmock.h>

#include "analysis/reports/report_json.h"
#include "analysis/reports/report_text.h"
#include "tests/analysis/reports/leak_fixture.h"
#include "tests/analysis/reports/synthetic_pytorch.h"

namespace cuheap::analysis {
namespace {

using testing::HasSubstr;
using testing::Not;

class RanOutTest : public LeakFixture {
 protected:
  void SetUpModel(int parameters) {
    for (int i = 0; i < parameters; ++i) weights_.push_back(training_.Tensor(to_, 64 * kMiB));
  }
  // The driver refuses, and PyTorch tells the program.
  void RunsOut(std::uint32_t stack, std::uint64_t bytes) {
    program_.Fails(stack, bytes);
    program_.Mark();  // an event of its own, then made into PyTorch's
    Events& events = program_.raw().events;
    events.type.SetBack(EventType::kFrameworkOutOfMemory);
    events.bytes.SetBack(bytes);
    events.stack.SetBack(stack);
  }
  std::vector<std::uint64_t> Step(std::uint64_t bytes) {
    std::vector<std::uint64_t> saved = training_.ForwardPass(41);
    saved.push_back(training_.Tensor(training_.Forward("relu", 23, 41), bytes));
    return saved;
  }
  void FinishedStep(std::uint64_t bytes) {
    training_.BackwardPass(Step(bytes));
    training_.OptimizerStep(43);
  }
  static const OomContext& ContextOf(const Report& report) { return report.failures.front().context; }

  SyntheticTraining training_{program_};
  std::uint32_t apply_ =
      program_.AddPythonFrame("/v/lib/python3.11/site-packages/torch/nn/modules/module.py", 900, "Module._apply");
  std::uint32_t to_ = training_.Stack("to", {apply_, training_.Script(30, "main")});
  std::vector<std::uint64_t> weights_;
};

TEST_F(RanOutTest, WeightsThatDoNotFitAreNoLeak) {
  SetUpModel(30);
  RunsOut(to_, 64 * kMiB);
  for (const bool returned : {false, true}) {
    if (returned) training_.Free(weights_);
    const Report& report = Now();
    EXPECT_EQ(report.verdict, Verdict::kOutOfMemory);
    EXPECT_EQ(report.leak_count(), 0u) << RenderText(report);
    EXPECT_EQ(report.steps.source, StepSource::kNone);
    EXPECT_EQ(ContextOf(report).cause, OomCause::kWeights);
    EXPECT_EQ(ContextOf(report).of(TensorRole::kWeights), 30 * 64 * kMiB);
    EXPECT_THAT(RenderText(report), HasSubstr("the weights do not fit: 1.9 GiB"));
    EXPECT_THAT(RenderText(report), HasSubstr("a smaller batch does not help"));
    EXPECT_THAT(RenderText(report), Not(HasSubstr("free that first")));
    EXPECT_THAT(RenderSummary(report, {}), HasSubstr("the weights do not fit"));
    EXPECT_THAT(RenderJson(report), HasSubstr("\"cause\": \"weights\""));
  }
}

TEST_F(RanOutTest, NorAreThoseOfAProgramThatFails) {
  SetUpModel(16);
  training_.Free(weights_);
  program_.raw().completeness.exit_status = 0;
  EXPECT_EQ(Now().leak_count(), 1u);  // a list that is filled looks the same
  program_.raw().completeness.exit_status = 1;
  const Report& report = Now();
  EXPECT_EQ(report.verdict, Verdict::kNoLeaks) << RenderText(report);
  EXPECT_EQ(report.steps.source, StepSource::kNone);
}

TEST_F(RanOutTest, ManyGradientsAndStatesOfTheFirstStepAreNoLeak) {
  SetUpModel(12);
  Step(kMiB);
  for (int i = 0; i < 12; ++i) training_.Tensor(training_.Backward("AddmmBackward0"), 64 * kMiB);
  for (int i = 0; i < 12; ++i) training_.Tensor(training_.InOptimizer("zeros_like", 43), 64 * kMiB);
  RunsOut(training_.InOptimizer("zeros_like", 43), 64 * kMiB);
  const Report& report = Now();
  EXPECT_EQ(report.leak_count(), 0u) << RenderText(report);
  EXPECT_EQ(ContextOf(report).cause, OomCause::kOptimizer);
  EXPECT_EQ(ContextOf(report).of(TensorRole::kGradients), 12 * 64 * kMiB);
  EXPECT_EQ(ContextOf(report).of(TensorRole::kOptimizerState), 12 * 64 * kMiB);
  EXPECT_TRUE(ContextOf(report).adam);
  EXPECT_THAT(RenderText(report), HasSubstr("about 3.0 GiB in all"));
  EXPECT_THAT(RenderText(report), HasSubstr("8-bit"));
  EXPECT_THAT(RenderSummary(report, {}), HasSubstr("no line leaks"));
}

TEST_F(RanOutTest, TheActivationsOfTheFirstStepAreNoLeak) {
  SetUpModel(2);
  for (int i = 0; i < 30; ++i) training_.Tensor(training_.Forward("relu", 23, 41), 64 * kMiB);
  RunsOut(training_.Forward("relu", 23, 41), 64 * kMiB);
  const Report& report = Now();
  EXPECT_EQ(report.leak_count(), 0u) << RenderText(report);
  EXPECT_EQ(ContextOf(report).cause, OomCause::kFirstStep);
  EXPECT_EQ(ContextOf(report).line_bytes, 30 * 64 * kMiB);
  EXPECT_THAT(RenderText(report), HasSubstr("the first step does not fit: "));
  EXPECT_THAT(RenderText(report), HasSubstr("A smaller batch, activation checkpointing"));
}

// Too few for the steps to be known: but it was not the first that did not fit.
TEST_F(RanOutTest, AStepAfterOneThatFittedIsNotCalledTheFirst) {
  SetUpModel(1);
  FinishedStep(kMiB);
  Step(900 * kMiB);
  RunsOut(training_.Forward("relu", 23, 41), 64 * kMiB);
  const Report& report = Now();
  EXPECT_EQ(ContextOf(report).cause, OomCause::kFirstStep);
  EXPECT_TRUE(ContextOf(report).step_done);
  EXPECT_THAT(RenderText(report), HasSubstr("a step does not fit, though one before it did: "));
  EXPECT_THAT(RenderText(report), HasSubstr("Is its input larger"));
}

TEST_F(RanOutTest, AStepThatOutgrowsTheFinishedOnesIsTheCause) {
  SetUpModel(1);
  for (int step = 0; step < 6; ++step) FinishedStep(kMiB);
  Step(900 * kMiB);
  RunsOut(training_.Forward("relu", 23, 41), 64 * kMiB);
  const Report& report = Now();
  EXPECT_EQ(report.leak_count(), 0u) << RenderText(report);
  EXPECT_EQ(ContextOf(report).cause, OomCause::kLastStep);
  EXPECT_EQ(Describe(report.lines.line(ContextOf(report).line)), "/opt/me/train.py:23");
  EXPECT_EQ(ContextOf(report).line_bytes, 900 * kMiB);
  EXPECT_LT(ContextOf(report).finished_bytes, 10 * kMiB);
  EXPECT_THAT(RenderText(report), HasSubstr("of which train.py:23 has 900.0 MiB"));
  EXPECT_THAT(RenderText(report), HasSubstr("A smaller batch, activation checkpointing"));
}

TEST_F(RanOutTest, ALeakThatFillsTheDeviceStaysOne) {
  SetUpModel(1);
  for (int step = 0; step < 20; ++step) {
    FinishedStep(kMiB);
    training_.Tensor(training_.Loop("relu", 45), 64 * kMiB);
  }
  RunsOut(training_.Loop("relu", 45), 64 * kMiB);
  const Report& report = Now();
  ASSERT_EQ(report.leak_count(), 1u) << RenderText(report);
  EXPECT_EQ(LineOf(report, report.findings.front()), "/opt/me/train.py:45");
  EXPECT_EQ(ContextOf(report).cause, OomCause::kLeaks);
  EXPECT_THAT(RenderText(report), HasSubstr("Mend the leak above first."));
}

// Evaluation that keeps every output, in a program that never trains.
TEST_F(RanOutTest, ALeakOfManyForwardPassesStaysOne) {
  SetUpModel(1);
  for (int pass = 0; pass < 20; ++pass) {
    training_.Temporary(training_.Loop("randn", 40), kMiB);
    training_.Temporary(training_.Forward("linear", 22, 41), kMiB);
    training_.Tensor(training_.Forward("relu", 23, 41), 64 * kMiB);
  }
  RunsOut(training_.Forward("relu", 23, 41), 64 * kMiB);
  EXPECT_EQ(Now().leak_count(), 1u) << RenderText(Now());
}

// No model, no steps: products in a list.
TEST_F(RanOutTest, ResultsOfOperatorsThatAreCollectedAreALeak) {
  for (int i = 0; i < 40; ++i) training_.Tensor(training_.Loop("mm", 45), 64 * kMiB);
  RunsOut(training_.Loop("mm", 45), 64 * kMiB);
  const Report& report = Now();
  EXPECT_EQ(report.leak_count(), 1u) << RenderText(report);
  EXPECT_EQ(ContextOf(report).cause, OomCause::kLeaks);
}

TEST_F(RanOutTest, PyTorchsErrorAndTheDriversRefusalAreOneEntry) {
  training_.set_kind(AllocationKind::kTensor);
  SetUpModel(3);
  RunsOut(to_, 64 * kMiB);
  const Report& report = Now();
  ASSERT_EQ(report.failures.size(), 1u);
  EXPECT_EQ(report.failures[0].outcome, FailureOutcome::kBehindFramework);
  const std::string text = RenderText(report);
  EXPECT_THAT(text, HasSubstr("PyTorch raised OutOfMemoryError"));
  EXPECT_THAT(text, HasSubstr("the driver had refused 64.0 MiB for it"));
  EXPECT_THAT(text, Not(HasSubstr("refused with CUDA_ERROR_OUT_OF_MEMORY")));
}

TEST_F(RanOutTest, ARefusalThatPyTorchGotOverIsToldAsThat) {
  program_.Fails(to_, 64 * kMiB);
  training_.Tensor(training_.Stack("to", {training_.Script(31, "main")}), 64 * kMiB);
  const Report& report = Now();
  ASSERT_EQ(report.failures.size(), 1u);
  EXPECT_EQ(report.failures[0].outcome, FailureOutcome::kRecovered);
  EXPECT_THAT(RenderText(report), HasSubstr("the program was not told"));
}

}  // namespace
}  // namespace cuheap::analysis
