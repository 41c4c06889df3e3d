#include "allocator/quarantine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cuheap {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class QuarantineTest : public ::testing::Test {
 protected:
  std::unique_ptr<Segment> slab_ = Segment::Create(1 << 20, 512 * 1000, 512, true, 0);
  std::unique_ptr<Segment> other_ = Segment::Create(2 << 20, 512 * 1000, 512, true, 0);
  std::vector<std::uint32_t> Drain(SyncTicket proven) {
    std::vector<std::uint32_t> out;
    quarantine_.Drain(proven, [&](Segment*, std::uint32_t index) { out.push_back(index); });
    return out;
  }
  Quarantine quarantine_;
};

TEST_F(QuarantineTest, ReleasesOnlyStampsBelowWhatIsProven) {
  quarantine_.Reserve(10);
  quarantine_.PushBlock(slab_.get(), 1, 3);
  quarantine_.PushBlock(slab_.get(), 2, 3);
  quarantine_.PushBlock(slab_.get(), 3, 5);
  EXPECT_THAT(Drain(3), IsEmpty());
  EXPECT_THAT(Drain(4), ElementsAre(1, 2));
  EXPECT_THAT(Drain(5), IsEmpty());
  EXPECT_EQ(quarantine_.waiting_blocks(), 1u);
  EXPECT_THAT(Drain(6), ElementsAre(3));
  EXPECT_TRUE(quarantine_.empty());
}

TEST_F(QuarantineTest, KeepsOrderAcrossWrapAndGrowth) {
  std::uint32_t in = 0, out = 0;
  for (std::size_t room : {256u, 256u, 700u, 5000u}) {
    quarantine_.Reserve(room);
    while (quarantine_.waiting_blocks() < room - 10) quarantine_.PushBlock(slab_.get(), in, in), ++in;
    for (const std::uint32_t index : Drain(out + room / 2)) ASSERT_EQ(index, out++);
  }
  for (const std::uint32_t index : Drain(in)) ASSERT_EQ(index, out++);
  EXPECT_EQ(out, in);
}

TEST_F(QuarantineTest, DedicatedSegmentsCanLeaveEarly) {
  auto a = Segment::Create(1, 10, 10, false, 0), b = Segment::Create(20, 10, 10, false, 0);
  quarantine_.PushSegment(a.get(), 1);
  quarantine_.PushSegment(b.get(), 2);
  EXPECT_EQ(quarantine_.FirstSegment(), a.get());
  EXPECT_EQ(Quarantine::Next(a.get()), b.get());
  quarantine_.RemoveSegment(a.get());
  std::vector<Segment*> out;
  quarantine_.Drain(3, [&](Segment* segment, std::uint32_t) { out.push_back(segment); });
  EXPECT_THAT(out, ElementsAre(b.get()));
  EXPECT_TRUE(quarantine_.empty());
}

TEST_F(QuarantineTest, ForgetsTheBlocksOfOneSlabOnly) {
  quarantine_.Reserve(10);
  for (std::uint32_t i = 0; i < 6; ++i) quarantine_.PushBlock(i % 2 == 0 ? slab_.get() : other_.get(), i, i);
  quarantine_.ForgetSlab(slab_.get());
  EXPECT_THAT(Drain(100), ElementsAre(1, 3, 5));
}

}  // namespace
}  // namespace cuheap
