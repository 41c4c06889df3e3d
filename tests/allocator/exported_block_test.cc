// Packed blocks that other processes may have open (SyncPool::Export).
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "allocator/fake_device_memory.h"
#include "allocator/sync_pool.h"

namespace cuheap {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr ContextId kContext = 0xC1;

class ExportedBlockTest : public ::testing::Test {
 protected:
  PoolBlock Take(std::size_t bytes) {
    const AllocateOutcome outcome = pool_->Allocate(kContext, 0, bytes);
    EXPECT_TRUE(outcome.result.ok()) << outcome.result.code;
    return outcome.block;
  }
  void Give(const PoolBlock& block) { EXPECT_EQ(pool_->Free(block.address).status, FreeStatus::kFreed); }
  void Synchronize() { pool_->EndSynchronize(kContext, pool_->BeginSynchronize(kContext), true); }
  void ExpectSumsHold() {
    const SyncPoolStats s = pool_->Stats();
    EXPECT_EQ(s.reserved, s.active + s.quarantined + s.ready + s.pinned + s.tail);
  }

  FakeDeviceMemory memory_{{}};
  std::unique_ptr<SyncPool> pool_ = std::make_unique<SyncPool>(memory_, nullptr, SyncPoolOptions{});
};

TEST_F(ExportedBlockTest, AnExportedBlockIsNeverReusedButItsSlabGoesBack) {
  const PoolBlock exported = Take(1000), neighbour = Take(1000);
  ASSERT_EQ(exported.segment, neighbour.segment);
  EXPECT_EQ(pool_->Export(exported.address + 999)->incarnation, exported.incarnation);
  Give(exported);
  EXPECT_FALSE(pool_->Export(exported.address).has_value());
  EXPECT_EQ(pool_->Stats().quarantined, exported.block_bytes);
  Synchronize();
  EXPECT_EQ(pool_->Stats().pinned, exported.block_bytes);
  Give(neighbour);
  Synchronize();
  // The slab waits to be given back; no other of its class is taken from first.
  EXPECT_EQ(pool_->ReleaseIdle(), exported.segment_bytes);
  EXPECT_FALSE(pool_->Owns(exported.address));
  ExpectSumsHold();
}

TEST_F(ExportedBlockTest, NeighboursOfAnExportedBlockAreReused) {
  const PoolBlock exported = Take(1000), live = Take(1000), neighbour = Take(1000);
  ASSERT_TRUE(pool_->Export(exported.address).has_value());
  Give(exported);
  Give(neighbour);
  Synchronize();
  EXPECT_EQ(Take(1000).address, neighbour.address);
  EXPECT_EQ(live.segment, exported.segment);
  EXPECT_EQ(pool_->ReleaseIdle(), 0u);
}

TEST_F(ExportedBlockTest, ManyExportedBlocksDoNotTakeASlabEach) {
  std::size_t most = 0;
  for (const std::size_t bytes : {std::size_t{5000}, std::size_t{300'000}, std::size_t{900'000}}) {
    for (int i = 0; i < 2000; ++i) {
      const PoolBlock block = Take(bytes);
      ASSERT_TRUE(block.packed);
      ASSERT_TRUE(pool_->Export(block.address).has_value());
      Give(block);
      Synchronize();
      most = std::max(most, pool_->Stats().reserved / block.segment_bytes);
    }
    ExpectSumsHold();
  }
  EXPECT_LE(most, 12u);  // eight that wait to be given back, and one in use of each class
}

TEST_F(ExportedBlockTest, OnlyPackedBlocksAreExportedByThePool) {
  EXPECT_FALSE(pool_->Export(Take(4 * kMiB).address).has_value());
  EXPECT_FALSE(pool_->Export(0x1000).has_value());
}

}  // namespace
}  // namespace cuheap
