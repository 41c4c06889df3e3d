#include "allocator/size_classes.h"

#include <gtest/gtest.h>

namespace cuheap {
namespace {

TEST(SizeClassesTest, FirstClassesAreThese) {
  const std::size_t expected[] = {512,  1024, 1536, 2048,  2560,  3072,  3584,  4096, 5120,
                                  6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480};
  for (std::uint32_t i = 0; i < std::size(expected); ++i) EXPECT_EQ(SizeClassBytes(i), expected[i]) << i;
}

TEST(SizeClassesTest, EverySizeGetsTheSmallestClassThatHoldsIt) {
  for (std::size_t bytes = 1; bytes <= std::size_t{5} << 20; bytes += bytes < 70000 ? 1 : 97) {
    const std::uint32_t size_class = SizeClassOf(bytes);
    ASSERT_GE(SizeClassBytes(size_class), bytes);
    if (size_class > 0) {
      ASSERT_LT(SizeClassBytes(size_class - 1), bytes);
    }
  }
}

TEST(SizeClassesTest, ClassesAreAlignedGrowAndWasteAtMostAQuarter) {
  for (std::uint32_t i = 0; i + 1 < kSizeClasses; ++i) {
    ASSERT_EQ(SizeClassBytes(i) % kBlockAlignment, 0u);
    ASSERT_EQ(SizeClassOf(SizeClassBytes(i)), i);
    ASSERT_EQ(SizeClassOf(SizeClassBytes(i) + 1), i + 1);
    const std::size_t next = SizeClassBytes(i + 1);
    if (i >= 3) {
      ASSERT_LE(4 * (next - SizeClassBytes(i) - 1), next);  // waste of the worst request in class i + 1
    }
  }
}

}  // namespace
}  // namespace cuheap
