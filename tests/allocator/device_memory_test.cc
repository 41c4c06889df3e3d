#include "allocator/device_memory.h"

#include <gtest/gtest.h>

#include "allocator/fake_device_memory.h"

namespace cuheap {
namespace {

TEST(DeviceMemoryRefTest, ACopyRefersToTheMemoryNotToTheReference) {
  FakeDeviceMemory memory;
  std::uint64_t address = 0;
  auto first = std::make_unique<DeviceMemoryRef>(memory);
  DeviceMemoryRef copy(*first);  // from a non-constant reference: the template must not take it
  first.reset();
  EXPECT_TRUE(copy.Allocate(512, &address).ok());
  EXPECT_TRUE(copy.Synchronize(1).ok());
  EXPECT_TRUE(copy.Free(address).ok());
  EXPECT_EQ(memory.calls(), 3u);
}

}  // namespace
}  // namespace cuheap
