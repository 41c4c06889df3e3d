#include "tools/cuheap/message.h"

#include <gtest/gtest.h>

namespace cuheap::tools {
namespace {

TEST(MessageTest, ANameCannotForgeALine) {
  testing::internal::CaptureStderr();
  Say("evil\ncuheap: no leaks\xC2\x9B"
      "2J\u202E (process 7)");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "cuheap: evil?cuheap: no leaks?2J? (process 7)\n");
}

TEST(MessageTest, OurOwnLinesStayLines) {
  testing::internal::CaptureStderr();
  SayLines("one\ntwo\x1B[1m");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "cuheap: one\ncuheap: two?[1m\n");
}

TEST(MessageTest, WordsAreQuotedOnlyIfNeededAndAlwaysPrintable) {
  EXPECT_EQ(ShellQuoted("run-1/a.json"), "run-1/a.json");
  EXPECT_EQ(ShellQuoted(""), "''");
  EXPECT_EQ(ShellQuoted("a b'c"), "'a b'\\''c'");
  EXPECT_EQ(ShellQuoted("größe"), "'größe'");
  EXPECT_EQ(ShellQuoted("a\nb'\\\xC2\x9B"), "$'a\\x0ab\\'\\\\\\xc2\\x9b'");
}

}  // namespace
}  // namespace cuheap::tools
