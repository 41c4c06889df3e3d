// Walks over structures that are not what the layout says: each ends, says so and touches nothing that cannot be read.
// Walks over real interpreters: frames_test.py.
#include "interpose/python/frame_walk.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>

#include "interpose/python/layout.h"

namespace cuheap::python {
namespace {

int g_initialized = 1;
void* g_state = nullptr;

class FrameWalkTest : public testing::Test {
 protected:
  void SetUp() override {
    g_initialized = 1;
    interpreter_.layout = LayoutOf(3, 13);
    interpreter_.code_type = 0x1234567890;
    interpreter_.is_initialized = [] { return g_initialized; };
    interpreter_.this_thread_state = [] { return g_state; };
    unreadable_ = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(unreadable_, MAP_FAILED);
    g_state = state_;
    PutPointer(state_, interpreter_.layout->state_frame, frame_);
    PutPointer(frame_, interpreter_.layout->frame_code, code_);
    PutPointer(code_, kObjectType, reinterpret_cast<void*>(interpreter_.code_type));
  }
  void TearDown() override { munmap(unreadable_, 4096); }

  static void PutPointer(void* object, unsigned offset, const void* value) {
    std::memcpy(static_cast<char*>(object) + offset, &value, sizeof(value));
  }
  void SetOwner(std::uint8_t owner) {
    reinterpret_cast<std::uint8_t*>(frame_)[interpreter_.layout->frame_owner] = owner;
  }
  PythonWalk Walk() { return WalkPython(interpreter_, codes_, true, words_, 8, anchors_); }

  Interpreter interpreter_;
  CodeTable codes_{nullptr};  // no walk here comes so far that a code object is copied
  void* unreadable_ = nullptr;
  alignas(64) std::uint64_t state_[64] = {}, frame_[64] = {}, code_[64] = {};
  std::uint64_t words_[8] = {}, anchors_[8] = {};
};

TEST_F(FrameWalkTest, AThreadWithoutFramesSaysWhy) {
  PutPointer(state_, interpreter_.layout->state_frame, nullptr);
  EXPECT_EQ(Walk().none, journal::NoPython::kNoFrame);
  g_state = nullptr;
  EXPECT_EQ(Walk().none, journal::NoPython::kUnknownThread);
  g_initialized = 0;
  EXPECT_EQ(Walk().none, journal::NoPython::kNotInitialized);
  EXPECT_FALSE(Walk().unreadable);
}

TEST_F(FrameWalkTest, MemoryThatCannotBeReadEndsTheWalk) {
  PutPointer(frame_, interpreter_.layout->frame_code, unreadable_);
  EXPECT_TRUE(Walk().unreadable);
  PutPointer(state_, interpreter_.layout->state_frame, unreadable_);
  EXPECT_TRUE(Walk().unreadable);
  g_state = unreadable_;
  EXPECT_TRUE(Walk().unreadable);
}

TEST_F(FrameWalkTest, WhatIsNoAddressEndsTheWalk) {
  for (const std::uint64_t wrong :
       {std::uint64_t{1}, std::uint64_t{4095}, std::uint64_t{0xFFFF800000000000}, ~std::uint64_t{0},
        std::uint64_t{0x7FFFFFFFFFF8}, reinterpret_cast<std::uint64_t>(code_) + 4}) {
    PutPointer(frame_, interpreter_.layout->frame_code, reinterpret_cast<void*>(wrong));
    EXPECT_TRUE(Walk().unreadable) << wrong;
  }
}

TEST_F(FrameWalkTest, OtherObjectsAreNoCode) {
  PutPointer(code_, kObjectType, reinterpret_cast<void*>(interpreter_.code_type + 8));
  const PythonWalk walk = Walk();
  EXPECT_TRUE(walk.unreadable);
  EXPECT_EQ(walk.depth, 0u);
}

TEST_F(FrameWalkTest, CodeWithoutStringsIsNoCode) {
  reinterpret_cast<std::uint64_t*>(code_)[kObjectSize / 8] = 100;
  PutPointer(frame_, interpreter_.layout->frame_position,
             reinterpret_cast<char*>(code_) + interpreter_.layout->code_bytecode + 20);
  EXPECT_TRUE(Walk().unreadable);  // its file name is a null pointer
}

TEST_F(FrameWalkTest, ARingOfShimsEnds) {
  SetOwner(kOwnedByCStack);
  PutPointer(frame_, interpreter_.layout->frame_previous, frame_);
  EXPECT_TRUE(Walk().unreadable);
}

TEST(LayoutTest, OnlyKnownVersionsHaveOne) {
  for (unsigned minor = 9; minor <= 13; ++minor) EXPECT_NE(LayoutOf(3, minor), nullptr) << minor;
  EXPECT_EQ(LayoutOf(3, 8), nullptr);
  EXPECT_EQ(LayoutOf(3, 14), nullptr);
  EXPECT_EQ(LayoutOf(2, 11), nullptr);
}

TEST(LayoutTest, WhatTheInterpreterSaysItselfMustAgree) {
  const Layout& layout = *LayoutOf(3, 13);
  DebugOffsets offsets{};
  std::memcpy(offsets.cookie, "xdebugpy", 8);
  offsets.version = 0x030D00F0;
  offsets.state.current_frame = 72;
  offsets.frame = {.size = 88, .previous = 8, .executable = 0, .position = 56, .locals = 72, .owner = 70};
  offsets.code.filename = 112;
  offsets.code.qualified_name = 128;
  offsets.code.line_table = 136;
  offsets.code.first_line = 68;
  offsets.code.bytecode = 200;
  EXPECT_TRUE(Agrees(layout, offsets));
  DebugOffsets other = offsets;
  other.free_threaded = 1;
  EXPECT_FALSE(Agrees(layout, other));
  other = offsets;
  other.version = 0x030E00F0;
  EXPECT_FALSE(Agrees(layout, other));
  other = offsets;
  other.frame.position = 64;
  EXPECT_FALSE(Agrees(layout, other));
  other = offsets;
  other.cookie[0] = 'y';
  EXPECT_FALSE(Agrees(layout, other));
}

}  // namespace
}  // namespace cuheap::python
