// How much the pool asks the driver for when it grows.
#include <gtest/gtest.h>

#include "allocator/fake_device_memory.h"
#include "allocator/sync_pool.h"

namespace cuheap {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr ContextId kContext = 0xC1;

// cases.md B-04 (rapidsai/rmm#496): a pool that doubles fails with half the device free. Ours asks for what is missing, so
// that blocks of 8 GiB fit on a device of 32,510 MiB as often as natively.
TEST(SyncPoolGrowthTest, GrowthAsksForWhatIsMissing) {
  FakeDeviceMemory::Options options;
  options.capacity = 32'510 * kMiB;
  FakeDeviceMemory memory(options);
  SyncPool pool(memory, nullptr, {});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(pool.Allocate(kContext, 0, 8192 * kMiB).result.ok()) << i;
  EXPECT_EQ(pool.Stats().reserved, 3 * 8192 * kMiB);
  EXPECT_EQ(pool.Allocate(kContext, 0, 8192 * kMiB).result, kDriverOutOfMemory);
  EXPECT_TRUE(pool.Allocate(kContext, 0, (32'510 - 3 * 8192) * kMiB).result.ok());
}

}  // namespace
}  // namespace cuheap
