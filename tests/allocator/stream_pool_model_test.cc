// Lists of operations on StreamPool, checked against the oracle after each.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/allocator/stream_pool_oracle.h"

namespace cuheap {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr int kWeights[StreamStep::kKinds] = {12, 6, 8, 14, 4, 4, 1, 8, 8, 3, 1, 2, 3, 1, 1, 1, 1, 1, 1, 1, 0, 1};

}  // namespace
}  // namespace cuheap

namespace rc {

template <>
struct Arbitrary<cuheap::StreamStep> {
  static Gen<cuheap::StreamStep> arbitrary() {
    using cuheap::StreamStep;
    std::vector<StreamStep::Kind> kinds;
    for (int kind = 0; kind < StreamStep::kKinds; ++kind)
      kinds.insert(kinds.end(), cuheap::kWeights[kind], static_cast<StreamStep::Kind>(kind));
    return gen::build<StreamStep>(gen::set(&StreamStep::kind, gen::elementOf(kinds)),
                                  gen::set(&StreamStep::a, gen::resize(1000, gen::arbitrary<std::uint32_t>())),
                                  gen::set(&StreamStep::b, gen::inRange<std::uint32_t>(0, 1000)));
  }
};

}  // namespace rc

namespace cuheap {
namespace {

std::vector<StreamStep> RandomSteps(std::uint32_t seed, std::size_t count) {
  std::mt19937 random(seed);
  std::discrete_distribution<int> kind(std::begin(kWeights), std::end(kWeights));
  std::vector<StreamStep> steps(count);
  for (StreamStep& step : steps) {
    step = {static_cast<StreamStep::Kind>(kind(random)), static_cast<std::uint32_t>(random()),
            static_cast<std::uint32_t>(random() % 1000)};
  }
  return steps;
}

StreamPoolOracle::Setup SetupFor(bool tight, bool narrow, int streams) {
  StreamPoolOracle::Setup setup;
  setup.capacity = tight ? 24 * kMiB : 4096 * kMiB;
  setup.pool.region_bytes = narrow ? 32 * kMiB : 4096 * kMiB;
  setup.pool.chunk_bytes = narrow ? 4 * kMiB : 256 * kMiB;
  setup.streams = streams;
  return setup;
}

RC_GTEST_PROP(StreamPoolModel, KeepsItsPromises, (bool tight, bool narrow)) {
  const int streams = *rc::gen::inRange(1, 6);
  const auto steps = *rc::gen::withSize(
      [](int size) { return rc::gen::resize(5 * size, rc::gen::arbitrary<std::vector<StreamStep>>()); });
  const std::string violation = StreamPoolOracle(SetupFor(tight, narrow, streams)).Run(steps);
  if (!violation.empty()) RC_FAIL(violation);
}

TEST(StreamPoolModel, KeepsItsPromisesOverLongLists) {
  std::uint64_t reuses = 0;
  for (std::uint32_t seed = 0; seed < 150; ++seed) {
    StreamPoolOracle oracle(SetupFor(seed % 2 == 0, seed % 3 == 0, 1 + static_cast<int>(seed % 5)));
    EXPECT_EQ(oracle.Run(RandomSteps(seed, 500)), "") << "seed " << seed;
    reuses += oracle.reuses();
  }
  EXPECT_GT(reuses, 100u) << "memory never went from one stream to another: nothing was tested";
}

TEST(StreamPoolModel, KeepsItsPromisesWhenDriverCallsFail) {
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    std::vector<StreamStep> steps = RandomSteps(seed, 300);
    for (std::size_t i = 0; i < steps.size(); i += 9) steps[i].kind = StreamStep::kFailSoon;
    EXPECT_EQ(StreamPoolOracle(SetupFor(seed % 2 == 0, true, 3)).Run(steps), "") << "seed " << seed;
  }
}

TEST(StreamPoolModel, NoSingleRefusalOfTheDriverBreaksTheBooks) {
  for (std::uint32_t seed = 0; seed < 3; ++seed) {
    const std::vector<StreamStep> steps = RandomSteps(seed, 120);
    StreamPoolOracle::Setup setup = SetupFor(true, true, 3);
    StreamPoolOracle undisturbed(setup);
    ASSERT_EQ(undisturbed.Run(steps), "");
    const auto calls = static_cast<std::int64_t>(undisturbed.driver_calls());
    ASSERT_GT(calls, 40);
    for (setup.fail_call = 0; setup.fail_call < calls; ++setup.fail_call)
      EXPECT_EQ(StreamPoolOracle(setup).Run(steps), "") << "seed " << seed << ", call " << setup.fail_call;
  }
}

// The oracle can see the error that it is for.
TEST(StreamPoolModel, WithoutTheStreamRuleMemoryIsReusedTooEarly) {
  int broken = 0;
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    StreamPoolOracle::Setup setup = SetupFor(false, true, 3);
    setup.pool.stream_rule = false;
    std::vector<StreamStep> steps = RandomSteps(seed, 300);
    for (StreamStep& step : steps) {
      if (step.kind >= StreamStep::kReleaseIdle)
        step.kind = StreamStep::kSubmit;  // pages that go back are another error
    }
    const std::string violation = StreamPoolOracle(setup).Run(steps);
    broken += violation.find("handed to another stream before the free was reached") != std::string::npos;
  }
  EXPECT_GE(broken, 18);
}

}  // namespace
}  // namespace cuheap
