#include "allocator/fake_device_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cuheap {
namespace {

using Operation = FakeDeviceMemory::Operation;
constexpr std::size_t kMiB = std::size_t{1} << 20;

DeviceAddress MustAllocate(FakeDeviceMemory& memory, std::size_t bytes) {
  DeviceAddress address = 0;
  EXPECT_TRUE(memory.Allocate(bytes, &address).ok());
  return address;
}

TEST(FakeDeviceMemoryTest, CapacityIsCountedInGranules) {
  FakeDeviceMemory paged({.capacity = 4 * kMiB, .granule = 2 * kMiB});
  DeviceAddress address = 0;
  MustAllocate(paged, 1);
  MustAllocate(paged, 2 * kMiB);
  EXPECT_EQ(paged.Allocate(1, &address), kDriverOutOfMemory);
  FakeDeviceMemory exact({.capacity = 1000, .granule = 1});
  MustAllocate(exact, 999);
  MustAllocate(exact, 1);
  EXPECT_EQ(exact.Allocate(1, &address), kDriverOutOfMemory);
  EXPECT_EQ(exact.Allocate(SIZE_MAX, &address), kDriverOutOfMemory);
  EXPECT_EQ(exact.LiveBytes(), 1000u);
}

TEST(FakeDeviceMemoryTest, TheLowestAddressThatFitsComesBackFirst) {
  FakeDeviceMemory memory({.granule = 512});
  const DeviceAddress a = MustAllocate(memory, 1000), b = MustAllocate(memory, 1000), c = MustAllocate(memory, 1000);
  EXPECT_EQ(b, a + 1024);
  EXPECT_EQ(c, a + 2048);
  EXPECT_TRUE(memory.Free(b).ok());
  EXPECT_EQ(MustAllocate(memory, 1025), c + 1024) << "does not fit the hole";
  EXPECT_EQ(MustAllocate(memory, 1024), b);
}

TEST(FakeDeviceMemoryTest, DoubleInteriorAndForeignFreesAreRefusedAndCounted) {
  FakeDeviceMemory memory;
  const DeviceAddress a = MustAllocate(memory, 1000);
  EXPECT_EQ(memory.Free(a + 1), kDriverInvalidValue);
  EXPECT_TRUE(memory.Free(a).ok());
  EXPECT_EQ(memory.Free(a), kDriverInvalidValue);
  EXPECT_EQ(memory.invalid_frees(), 2u);
  DeviceAddress address = 0;
  EXPECT_EQ(memory.Allocate(0, &address), kDriverInvalidValue);
}

TEST(FakeDeviceMemoryTest, AFailedCallHasNoEffect) {
  FakeDeviceMemory memory;
  DeviceAddress address = 0;
  memory.FailCall(0, DriverResult{2});
  memory.FailCall(2, DriverResult{700});
  EXPECT_EQ(memory.Allocate(1000, &address), DriverResult{2});
  EXPECT_TRUE(memory.Live().empty());
  const DeviceAddress a = MustAllocate(memory, 1000);
  EXPECT_EQ(memory.Free(a), DriverResult{700});
  EXPECT_EQ(memory.Live().size(), 1u);
  EXPECT_TRUE(memory.Free(a).ok());
  memory.FailAll(Operation::kSynchronize, DriverResult{600});
  EXPECT_EQ(memory.Synchronize(1), DriverResult{600});
  EXPECT_EQ(memory.calls(Operation::kSynchronize), 1u);
  memory.FailAll(Operation::kSynchronize, kDriverSuccess);
  EXPECT_TRUE(memory.Synchronize(1).ok());
}

TEST(FakeDeviceMemoryTest, AContextTakesItsMemoryAlong) {
  FakeDeviceMemory memory;
  memory.set_current_context(1);
  MustAllocate(memory, 1000);
  memory.set_current_context(2);
  const DeviceAddress kept = MustAllocate(memory, 2000);
  memory.DestroyContext(1);
  EXPECT_THAT(memory.Live(), ::testing::ElementsAre(std::pair{kept, std::size_t{2000}}));
}

}  // namespace
}  // namespace cuheap
