// Memory that is on its way back to the driver, or waits for proof, is no reason for a request to fail.
#include "allocator/release_watch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include "allocator/fake_device_memory.h"
#include "allocator/sync_pool.h"

namespace cuheap {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr ContextId kContext = 0xC1;

TEST(ReleaseWatch, SaysWhetherAnythingCameBack) {
  ReleaseWatch watch;
  const std::uint64_t before = watch.ended();
  EXPECT_FALSE(watch.ChangedSince(before)) << "nothing is on its way: no wait";
  watch.Begin(1);
  watch.End();
  EXPECT_TRUE(watch.ChangedSince(before));
  EXPECT_FALSE(watch.ChangedSince(watch.ended()));
}

TEST(ReleaseWatch, WaitsForWhatIsOnItsWay) {
  ReleaseWatch watch;
  watch.Begin(1);
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    watch.End();
  });
  EXPECT_TRUE(watch.ChangedSince(0));
  other.join();
}

TEST(ReleaseWatch, WaitsNoLongerThanASecondOrSo) {
  ReleaseWatch watch;
  watch.Begin(1);
  EXPECT_FALSE(watch.ChangedSince(0));
}

class ReleasesTest : public ::testing::Test {
 protected:
  explicit ReleasesTest(SyncPoolOptions options = {})
      : memory_({.capacity = 8 * kMiB}), pool_(memory_, nullptr, options) {}

  DeviceAddress Take(std::size_t bytes) { return pool_.Allocate(kContext, 0, bytes).block.address; }

  FakeDeviceMemory memory_;
  SyncPool pool_;
};

TEST_F(ReleasesTest, ARequestWaitsForASegmentThatAnotherThreadIsGivingBack) {
  pool_.Free(Take(6 * kMiB));
  std::future<AllocateOutcome> request;
  memory_.set_watcher([&](const FakeDeviceMemory::Call& call, bool after, DriverResult) {
    if (call.operation != FakeDeviceMemory::Operation::kFree || after) return;
    // The segment is in no book any more, and the driver does not have it yet.
    request = std::async(std::launch::async, [&] { return pool_.Allocate(kContext, 0, 4 * kMiB); });
    EXPECT_EQ(request.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout) << "it must not fail yet";
  });
  EXPECT_EQ(pool_.ReleaseIdle(), 6 * kMiB);
  EXPECT_TRUE(request.get().result.ok());
}

// The rule off (docs/safety.md): the symptom is an out-of-memory that no native driver would report.
SyncPoolOptions WithoutTheRule() {
  SyncPoolOptions options;
  options.await_releases = false;
  return options;
}

class NoWatchTest : public ReleasesTest {
 protected:
  NoWatchTest() : ReleasesTest(WithoutTheRule()) {}
};

TEST_F(NoWatchTest, ARequestFailsForASegmentThatAnotherThreadIsGivingBack) {
  pool_.Free(Take(6 * kMiB));
  DriverResult result;
  memory_.set_watcher([&](const FakeDeviceMemory::Call& call, bool after, DriverResult) {
    if (call.operation != FakeDeviceMemory::Operation::kFree || after) return;
    std::thread([&] { result = pool_.Allocate(kContext, 0, 4 * kMiB).result; }).join();
  });
  EXPECT_EQ(pool_.ReleaseIdle(), 6 * kMiB);
  EXPECT_EQ(result, kDriverOutOfMemory);
}

TEST_F(ReleasesTest, SlabsWhoseBlocksAreAllFreedGoBackAfterAWait) {
  const DeviceAddress first = Take(100);
  const DeviceAddress second = Take(100);
  pool_.Free(first);
  EXPECT_EQ(pool_.WaitingBytes(0), 0u) << "one of its blocks is live";
  pool_.Free(second);
  EXPECT_EQ(pool_.IdleBytes(0), 0u);
  EXPECT_EQ(pool_.WaitingBytes(0), 2 * kMiB);
  EXPECT_EQ(pool_.ReleaseIdle(), 0u);
  EXPECT_EQ(pool_.ReleaseAfterWaiting(1), 0u) << "another device";
  EXPECT_EQ(pool_.ReleaseAfterWaiting(0), 2 * kMiB);
  EXPECT_EQ(memory_.calls(FakeDeviceMemory::Operation::kSynchronize), 1u);
  EXPECT_EQ(pool_.WaitingBytes(0), 0u);
  EXPECT_EQ(pool_.ReleaseAfterWaiting(0), 0u);
  EXPECT_EQ(memory_.calls(FakeDeviceMemory::Operation::kSynchronize), 1u) << "nothing waits: no synchronisation";
}

TEST_F(ReleasesTest, WhatIsNotProvenDoesNotGoBack) {
  pool_.Free(Take(100));
  memory_.FailAll(FakeDeviceMemory::Operation::kSynchronize, DriverResult{600});
  EXPECT_EQ(pool_.ReleaseAfterWaiting(0), 0u);
  EXPECT_EQ(pool_.WaitingBytes(0), 2 * kMiB);
}

}  // namespace
}  // namespace cuheap
