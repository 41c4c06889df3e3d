// Leaks among PyTorch's tensors: which line is named, what grows together, what is no leak.
#include <gmock/gmock.h>

#include "analysis/reports/report_json.h"
#include "analysis/reports/report_text.h"
#include "tests/analysis/reports/leak_fixture.h"
#include "tests/analysis/reports/synthetic_pytorch.h"

namespace cuheap::analysis {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int kSteps = 20;

class TensorLeaksTest : public LeakFixture {
 protected:
  // One step of the training: the batch is made in line 40, the model called in 41, the optimizer in 43.
  void Step() {
    const std::vector<std::uint64_t> batch{training_.Tensor(training_.Loop("randn", 40), 64 << 10)};
    training_.BackwardPass(training_.ForwardPass(41));
    training_.OptimizerStep(43);
    training_.Free(batch);
  }
  // A cell whose forward pass in line 20 saves one result, called in line 41. Returns the batch.
  std::uint64_t CellStep() {
    const std::uint64_t batch = training_.Tensor(training_.Loop("to", 40), 2048);
    for (int i = 0; i < 2; ++i) training_.Temporary(training_.Forward("linear", 20, 41), 4096);
    training_.Tensor(training_.Forward("relu", 20, 41), 4096);
    training_.Temporary(training_.Loop("argmax", 42), 512);
    return batch;
  }
  static std::string CallerOf(const Report& report, const LeakFinding& finding) {
    return finding.caller == 0 ? "" : Describe(report.lines.line(finding.caller));
  }

  SyntheticTraining training_{program_};
};

TEST_F(TensorLeaksTest, ACleanTrainingHasNone) {
  training_.SetUp();
  for (int step = 0; step < kSteps; ++step) Step();
  training_.End();
  const Report& report = Now();
  EXPECT_EQ(report.verdict, Verdict::kNoLeaks);
  EXPECT_EQ(report.leak_count(), 0u);
  EXPECT_EQ(report.bytes_of(LeakClass::kFreedAtEnd), 0u);
  EXPECT_EQ(report.steps.source, StepSource::kOptimizer);
  EXPECT_EQ(report.steps.count(), std::uint32_t{kSteps});
}

// validation_loss += criterion(model(x), y) without no_grad, in line 45, with a new batch in line 44.
TEST_F(TensorLeaksTest, AKeptGraphIsOneFindingAtTheLineThatCallsTheModel) {
  training_.SetUp();
  std::vector<std::uint64_t> kept;
  for (int step = 0; step < kSteps; ++step) {
    Step();
    kept.push_back(training_.Tensor(training_.Loop("randn", 44), 64 << 10));
    for (const std::uint64_t tensor : training_.ForwardPass(45)) kept.push_back(tensor);
  }
  for (const bool returned : {false, true}) {
    // When main() returns, Python frees it all: a leak nevertheless.
    if (returned) training_.Free(kept), training_.End();
    const Report& report = Now();
    ASSERT_EQ(report.leak_count(), 1u);
    const LeakFinding& leak = report.findings.front();
    EXPECT_EQ(LineOf(report, leak), "/opt/me/train.py:45");
    EXPECT_EQ(leak.cause, LeakCause::kGraph);
    EXPECT_EQ(leak.shape, GrowthShape::kEveryStep);
    EXPECT_EQ(leak.confidence, Confidence::kHigh);
    constexpr std::uint64_t kPerStep = (64 << 10) + 2 * SyntheticTraining::kHidden + SyntheticTraining::kLogits;
    EXPECT_DOUBLE_EQ(leak.bytes_per_step, kPerStep);
    EXPECT_EQ(leak.bytes, kSteps * kPerStep);
    EXPECT_EQ(leak.blocks, 4u * kSteps);
    EXPECT_EQ(leak.freed_at_exit, returned ? 4u * kSteps : 0u);
    ASSERT_EQ(leak.parts.size(), 4u);
    EXPECT_EQ(Describe(report.lines.line(leak.parts[0].line)), "/opt/me/train.py:20");
    EXPECT_DOUBLE_EQ(leak.parts[0].bytes_per_step, SyntheticTraining::kHidden);
    EXPECT_THAT(RenderText(report), HasSubstr("torch.no_grad()"));
    EXPECT_THAT(RenderJson(report), HasSubstr("\"cause\": \"graph\""));
  }
}

// The batch comes of two lines, and the second one's part, the targets, is not kept.
TEST_F(TensorLeaksTest, DataBetweenAGraphAndItsBatchDoesNotPartThem) {
  training_.SetUp();
  for (int step = 0; step < kSteps; ++step) {
    Step();
    training_.Tensor(training_.Loop("randn", 44), 64 << 10);
    const std::uint64_t targets = training_.Tensor(training_.Loop("randint", 45), 1024);
    training_.ForwardPass(46);
    training_.Free(targets);
  }
  const Report& report = Now();
  ASSERT_EQ(report.leak_count(), 1u) << RenderText(report);
  EXPECT_EQ(LineOf(report, report.findings.front()), "/opt/me/train.py:46");
  EXPECT_DOUBLE_EQ(report.findings.front().bytes_per_step,
                   (64 << 10) + 2 * SyntheticTraining::kHidden + SyntheticTraining::kLogits);
}

// out, state = model(x, state) without detach(): the output goes, everything else stays, and no loss is in it.
TEST_F(TensorLeaksTest, AStateThatIsCarriedOnKeepsEveryGraph) {
  training_.SetUp();
  for (int step = 0; step < kSteps; ++step) {
    training_.Tensor(training_.Loop("randn", 40), 2048);
    for (const char* const part : {"mm", "sigmoid", "tanh", "mul"})
      training_.Tensor(training_.Forward(part, 20, 41), 4096);
    const std::uint64_t output = training_.Tensor(training_.Forward("linear", 21, 41), 1024);
    training_.Temporary(training_.Loop("mse_loss", 42), 512);
    training_.BackwardPass({});
    training_.OptimizerStep(43);
    training_.Free(output);
  }
  const Report& report = Now();
  ASSERT_EQ(report.leak_count(), 1u) << RenderText(report);
  EXPECT_EQ(LineOf(report, report.findings.front()), "/opt/me/train.py:41");
  EXPECT_EQ(report.findings.front().cause, LeakCause::kGraph);
  EXPECT_DOUBLE_EQ(report.findings.front().bytes_per_step, 2048 + 4 * 4096);
}

// h = model(x, h) of a cell that saves one result: its batch tells the graph from collected outputs.
TEST_F(TensorLeaksTest, ACellWithOneSavedResultKeepsItsGraphToo) {
  for (int step = 0; step < kSteps; ++step) CellStep();
  const Report& report = Now();
  ASSERT_EQ(report.leak_count(), 1u) << RenderText(report);
  EXPECT_EQ(report.findings.front().cause, LeakCause::kGraph);
  EXPECT_EQ(LineOf(report, report.findings.front()), "/opt/me/train.py:41");
  EXPECT_THAT(RenderText(report), HasSubstr("h = h.detach()"));
}

TEST_F(TensorLeaksTest, OutputsWithoutTheirBatchAreNoGraph) {
  for (int step = 0; step < kSteps; ++step) training_.Free(CellStep());
  const Report& report = Now();
  ASSERT_EQ(report.leak_count(), 1u) << RenderText(report);
  EXPECT_EQ(report.findings.front().cause, LeakCause::kTensor);
  EXPECT_EQ(LineOf(report, report.findings.front()), "/opt/me/train.py:20");
}

// outputs.append(model(x)) without no_grad, after a training whose steps do not cover it; the layers have one stack.
TEST_F(TensorLeaksTest, AnEvaluationWithoutNoGradIsToldByItsUses) {
  training_.SetUp();
  for (int step = 0; step < kSteps; ++step) Step();
  constexpr int kPasses = 200;
  for (int pass = 0; pass < kPasses; ++pass) {
    training_.Tensor(training_.Loop("to", 50), 2048);
    for (int layer = 0; layer < 4; ++layer) {
      training_.Temporary(training_.Forward("linear", 20, 51), 4096);
      training_.Tensor(training_.Forward("relu", 20, 51), 4096);
    }
  }
  const Report& report = Now();
  ASSERT_EQ(report.leak_count(), 1u) << RenderText(report);
  const LeakFinding& leak = report.findings.front();
  EXPECT_EQ(LineOf(report, leak), "/opt/me/train.py:51");
  EXPECT_EQ(leak.cause, LeakCause::kGraph);
  EXPECT_NE(leak.confidence, Confidence::kLow);
  EXPECT_EQ(leak.bytes_per_occurrence, 2048u + 4 * 4096);
  EXPECT_THAT(RenderText(report), HasSubstr("torch.no_grad()"));
}

// self.history.append(h), with h of line 21, in training only.
TEST_F(TensorLeaksTest, ActivationsInAListAreNamedWithTheirCaller) {
  training_.SetUp();
  std::vector<std::uint64_t> history;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<std::uint64_t> saved = training_.ForwardPass(41);
    history.push_back(saved[1]);
    saved.erase(saved.begin() + 1);
    training_.BackwardPass(saved);
    training_.OptimizerStep(43);
    training_.Free(training_.ForwardPass(45));  // a validation that keeps nothing
  }
  training_.Free(history);
  training_.End();
  const Report& report = Now();
  ASSERT_EQ(report.leak_count(), 1u);
  const LeakFinding& leak = report.findings.front();
  EXPECT_EQ(LineOf(report, leak), "/opt/me/train.py:21");
  EXPECT_EQ(CallerOf(report, leak), "/opt/me/train.py:41");
  EXPECT_EQ(leak.cause, LeakCause::kTensor);
  EXPECT_DOUBLE_EQ(leak.bytes_per_step, SyntheticTraining::kHidden);
  EXPECT_EQ(leak.blocks, std::uint64_t{kSteps});
  EXPECT_THAT(RenderText(report), HasSubstr("handle.remove()"));
  EXPECT_THAT(RenderText(report), Not(HasSubstr("no_grad")));
}

TEST_F(TensorLeaksTest, ALeakOfAFewNumbersIsCalledSmall) {
  training_.SetUp();
  std::vector<std::uint64_t> losses;
  for (int step = 0; step < kSteps; ++step) {
    Step();
    losses.push_back(training_.Tensor(training_.Loop("nll_loss", 42), 512));
  }
  training_.Free(losses);
  training_.End();
  const std::string text = RenderText(Now());
  EXPECT_TRUE(text.starts_with("SMALL LEAK  1 line leaks: 10.0 KiB (10,240 B) kept to the end")) << text;
}

TEST_F(TensorLeaksTest, TwoLeaksInOneLoopAreTwoFindings) {
  training_.SetUp();
  for (int step = 0; step < kSteps; ++step) {
    std::vector<std::uint64_t> saved = training_.ForwardPass(41);
    saved.erase(saved.begin());  // kept in a list
    training_.BackwardPass(saved);
    training_.OptimizerStep(43);
    training_.ForwardPass(45);  // a graph that is kept
  }
  const Report& report = Now();
  ASSERT_EQ(report.leak_count(), 2u) << RenderText(report);
  EXPECT_EQ(LineOf(report, report.findings[0]), "/opt/me/train.py:45");
  EXPECT_EQ(report.findings[0].cause, LeakCause::kGraph);
  EXPECT_EQ(LineOf(report, report.findings[1]), "/opt/me/train.py:20");
  EXPECT_EQ(CallerOf(report, report.findings[1]), "/opt/me/train.py:41");
  EXPECT_DOUBLE_EQ(report.findings[1].bytes_per_step, SyntheticTraining::kHidden);
}

TEST_F(TensorLeaksTest, AListOfLossesIsTold) {
  training_.SetUp();
  for (int step = 0; step < kSteps; ++step) {
    Step();
    training_.Tensor(training_.Loop("mean", 46), 512);
  }
  const Report& report = Now();
  ASSERT_EQ(report.leak_count(), 1u);
  EXPECT_EQ(LineOf(report, report.findings.front()), "/opt/me/train.py:46");
  EXPECT_EQ(report.findings.front().cause, LeakCause::kScalar);
  EXPECT_THAT(RenderText(report), HasSubstr("loss.item()"));
}

TEST_F(TensorLeaksTest, KeptGradientsAreOneFinding) {
  training_.SetUp();
  for (int step = 0; step < kSteps; ++step) {
    Step();
    training_.Tensor(training_.Backward("SumBackward0"), 4096);
    training_.Tensor(training_.Backward("MulBackward0"), 8192);
  }
  const Report& report = Now();
  ASSERT_EQ(report.leak_count(), 1u);
  const LeakFinding& leak = report.findings.front();
  EXPECT_EQ(leak.cause, LeakCause::kGradient);
  EXPECT_THAT(LineOf(report, leak), HasSubstr("MulBackward0"));
  EXPECT_DOUBLE_EQ(leak.bytes_per_step, 4096 + 8192);
  EXPECT_EQ(leak.blocks, 2u * kSteps);
  EXPECT_EQ(leak.parts.size(), 2u);
}

// optimizers.append(AdamW(...)) in every step.
TEST_F(TensorLeaksTest, StateOfNewOptimizersIsTold) {
  training_.SetUp();
  for (int step = 0; step < kSteps; ++step) {
    Step();
    for (int i = 0; i < 4; ++i) training_.Tensor(training_.InOptimizer("empty_like", 43), 4096);
  }
  const Report& report = Now();
  ASSERT_EQ(report.leak_count(), 1u);
  EXPECT_EQ(LineOf(report, report.findings.front()), "/opt/me/train.py:43");
  EXPECT_EQ(report.findings.front().cause, LeakCause::kOptimizerState);
  EXPECT_DOUBLE_EQ(report.findings.front().bytes_per_step, 4 * 4096);
}

// The outputs of an epoch, collected for a metric and dropped: the last epoch's are freed at the end of the run.
TEST_F(TensorLeaksTest, AListThatIsEmptiedEveryEpochIsNoLeak) {
  training_.SetUp();
  std::vector<std::uint64_t> outputs;
  for (int step = 0; step < 20; ++step) {
    if (step % 5 == 0) training_.Free(std::exchange(outputs, {}));
    Step();
    outputs.push_back(training_.Tensor(training_.Loop("clone", 46), 4096));
  }
  training_.Free(outputs);
  training_.End();
  const Report& report = Now();
  EXPECT_EQ(report.leak_count(), 0u) << RenderText(report);
}

// The batches alone are data, however many of them a line makes.
TEST_F(TensorLeaksTest, CollectedBatchesAreNoGraph) {
  training_.SetUp();
  for (int step = 0; step < kSteps; ++step) {
    training_.Tensor(training_.Loop("randn", 40), 64 << 10);
    training_.Tensor(training_.Loop("randint", 40), 1024);
    training_.BackwardPass(training_.ForwardPass(41));
    training_.OptimizerStep(43);
  }
  const Report& report = Now();
  ASSERT_EQ(report.leak_count(), 1u);
  EXPECT_EQ(LineOf(report, report.findings.front()), "/opt/me/train.py:40");
  EXPECT_EQ(report.findings.front().cause, LeakCause::kTensor);
  EXPECT_DOUBLE_EQ(report.findings.front().bytes_per_step, (64 << 10) + 1024);
}

}  // namespace
}  // namespace cuheap::analysis
