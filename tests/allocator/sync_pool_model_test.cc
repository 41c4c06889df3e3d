// Lists of operations on SyncPool, checked against the oracle after each.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/allocator/sync_pool_oracle.h"

namespace rc {

template <>
struct Arbitrary<cuheap::PoolStep> {
  static Gen<cuheap::PoolStep> arbitrary() {
    using cuheap::PoolStep;
    // Frees and allocations are common, the rest is rare.
    const auto kind = gen::weightedElement<PoolStep::Kind>({{10, PoolStep::kAllocateSmall},
                                                            {8, PoolStep::kAllocateMedium},
                                                            {8, PoolStep::kAllocateLarge},
                                                            {20, PoolStep::kFree},
                                                            {2, PoolStep::kBadFree},
                                                            {3, PoolStep::kBeginSynchronize},
                                                            {4, PoolStep::kEndSynchronize},
                                                            {3, PoolStep::kSynchronize},
                                                            {1, PoolStep::kReleaseIdle},
                                                            {1, PoolStep::kPin},
                                                            {1, PoolStep::kExport},
                                                            {1, PoolStep::kPeersEnabled},
                                                            {1, PoolStep::kDestroyContext}});
    return gen::build<PoolStep>(gen::set(&PoolStep::kind, kind),
                                gen::set(&PoolStep::a, gen::resize(1000, gen::arbitrary<std::uint32_t>())),
                                gen::set(&PoolStep::b, gen::inRange<std::uint32_t>(0, 24)));
  }
};

}  // namespace rc

namespace cuheap {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

// Plain random lists, where shrinking is not wanted.
std::vector<PoolStep> RandomSteps(std::uint32_t seed, std::size_t count) {
  std::mt19937 random(seed);
  std::discrete_distribution<int> kind({10, 8, 8, 20, 2, 3, 4, 3, 1, 1, 1, 1});
  std::vector<PoolStep> steps(count);
  for (PoolStep& step : steps) {
    step = {static_cast<PoolStep::Kind>(kind(random)), static_cast<std::uint32_t>(random()),
            static_cast<std::uint32_t>(random())};
  }
  return steps;
}

std::vector<PoolStep> WithFailures(std::vector<PoolStep> steps) {
  for (std::size_t i = 0; i < steps.size(); i += 7) steps[i].kind = PoolStep::kFailSoon;
  return steps;
}

SyncPoolOracle::Setup SetupFor(bool tight, bool exact, bool pack) {
  SyncPoolOracle::Setup setup;
  setup.memory.capacity = tight ? 24 * kMiB : 1024 * kMiB;
  setup.memory.granule = exact ? 1 : 2 * kMiB;
  setup.pool.pack = pack;
  return setup;
}

std::vector<PoolStep> AnySteps() {
  return *rc::gen::withSize(
      [](int size) { return rc::gen::resize(4 * size, rc::gen::arbitrary<std::vector<PoolStep>>()); });
}

RC_GTEST_PROP(SyncPoolModel, KeepsItsPromises, (bool tight, bool exact, bool pack)) {
  const std::string violation = SyncPoolOracle(SetupFor(tight, exact, pack)).Run(AnySteps());
  if (!violation.empty()) RC_FAIL(violation);
}

RC_GTEST_PROP(SyncPoolModel, KeepsItsPromisesWhenDriverCallsFail, (bool tight, bool exact)) {
  const std::string violation = SyncPoolOracle(SetupFor(tight, exact, true)).Run(WithFailures(AnySteps()));
  if (!violation.empty()) RC_FAIL(violation);
}

TEST(SyncPoolModel, KeepsItsPromisesOverLongLists) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    SyncPoolOracle oracle(SetupFor(seed % 2 == 0, seed % 3 == 0, seed % 5 != 0));
    const std::string violation = oracle.Run(RandomSteps(seed, 600));
    EXPECT_EQ(violation, "") << "seed " << seed;
  }
}

TEST(SyncPoolModel, NoSingleDriverFailureLosesOrDoubleFreesASegment) {
  for (std::uint32_t seed = 0; seed < 4; ++seed) {
    const std::vector<PoolStep> steps = RandomSteps(seed, 150);
    SyncPoolOracle::Setup setup = SetupFor(true, seed % 2 == 0, true);
    SyncPoolOracle undisturbed(setup);
    ASSERT_EQ(undisturbed.Run(steps), "");
    const auto calls = static_cast<std::int64_t>(undisturbed.driver_calls());
    ASSERT_GT(calls, 30);
    for (setup.fail_call = 0; setup.fail_call < calls; ++setup.fail_call) {
      for (const int code : {2, 700}) {
        setup.fail_code = code;
        EXPECT_EQ(SyncPoolOracle(setup).Run(steps), "") << "seed " << seed << ", call " << setup.fail_call;
      }
    }
  }
}

// The oracle can see the error that it is for.
TEST(SyncPoolModel, WithoutQuarantineTheRuleIsBroken) {
  int broken = 0;
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    SyncPoolOracle::Setup setup = SetupFor(false, false, true);
    setup.pool.quarantine = false;
    std::vector<PoolStep> steps = RandomSteps(seed, 300);
    // A slab given back too early is another way to break it; here reuse is to be seen.
    std::erase_if(steps, [](const PoolStep& step) { return step.kind == PoolStep::kReleaseIdle; });
    const std::string violation = SyncPoolOracle(setup).Run(steps);
    broken += violation.find("reused before a synchronisation begun after its free") != std::string::npos;
  }
  EXPECT_EQ(broken, 20);
}

}  // namespace
}  // namespace cuheap
