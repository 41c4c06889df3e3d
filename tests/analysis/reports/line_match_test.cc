// Which line is which in another run: moved, edited, in another checkout.
#include "analysis/reports/line_match.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/analysis/reports/synthetic.h"

namespace cuheap::analysis {
namespace {

using testing::UnorderedElementsAre;

// "Describe(before) -> Describe(after)", "+" for new and "-" for gone ones; without "(no stack)" and main.
std::vector<std::string> Pairs(const SyntheticProgram& before, const SyntheticProgram& after,
                               SourceLines* before_source = nullptr, SourceLines* after_source = nullptr) {
  const Snapshot first = before.Snapshot(), second = after.Snapshot();
  const Report one = MakeReport(first), two = MakeReport(second);
  std::vector<std::string> result;
  std::size_t seen_before = 0, seen_after = 0;
  for (const LinePair& pair : PairLines(one, two, before_source, after_source)) {
    if (pair.before != kNoLine) ++seen_before;
    if (pair.after != kNoLine) ++seen_after;
    if (pair.before == 0) {
      EXPECT_EQ(pair.after, 0u);
      continue;
    }
    const std::string from = pair.before == kNoLine ? "" : Describe(one.lines.line(pair.before));
    const std::string to = pair.after == kNoLine ? "" : Describe(two.lines.line(pair.after));
    switch (pair.match()) {
      case LineMatch::kSame:
        result.push_back(from == to ? from : from + " = " + to);
        break;
      case LineMatch::kMoved:
        result.push_back(from + " -> " + to);
        break;
      case LineMatch::kNew:
        result.push_back("+ " + to);
        break;
      case LineMatch::kGone:
        result.push_back("- " + from);
        break;
    }
  }
  std::erase(result, "train.cc:200");
  EXPECT_EQ(seen_before, one.lines.size());
  EXPECT_EQ(seen_after, two.lines.size());
  return result;
}

void Add(SyntheticProgram& program, const std::string& file, std::uint32_t line, const std::string& function) {
  program.Malloc(program.Line(file, line, function), 1 << 20);
}

TEST(LineMatchTest, TheSameProgramsLinesAreTheSame) {
  SyntheticProgram program;
  Add(program, "/a/x.cc", 10, "F()");
  Add(program, "/a/y.cc", 20, "G()");
  EXPECT_THAT(Pairs(program, program), UnorderedElementsAre("/a/x.cc:10", "/a/y.cc:20"));
}

TEST(LineMatchTest, CheckoutsInTwoFolders) {
  SyntheticProgram before, after;
  Add(before, "/opt/a/main/src/x.cc", 10, "F()");
  Add(before, "/opt/a/main/lib/x.cc", 11, "F()");
  Add(after, "/build/7/src/x.cc", 10, "F()");
  Add(after, "/build/7/lib/x.cc", 11, "F()");
  EXPECT_THAT(Pairs(before, after), UnorderedElementsAre("/opt/a/main/src/x.cc:10 = /build/7/src/x.cc:10",
                                                         "/opt/a/main/lib/x.cc:11 = /build/7/lib/x.cc:11"));
}

TEST(LineMatchTest, PathsByTheirEndsWhereFoldersSayNothing) {
  SyntheticProgram before, after;
  Add(before, "/opt/one/deep/net/x.cc", 10, "F()");
  Add(before, "/srv/gpu/y.cc", 11, "G()");
  Add(after, "/var/net/x.cc", 10, "F()");
  Add(after, "/tmp/z/gpu/y.cc", 11, "G()");
  EXPECT_THAT(Pairs(before, after), UnorderedElementsAre("/opt/one/deep/net/x.cc:10 = /var/net/x.cc:10",
                                                         "/srv/gpu/y.cc:11 = /tmp/z/gpu/y.cc:11"));
}

TEST(LineMatchTest, TwoFilesThatFitAsWellAreNotGuessed) {
  SyntheticProgram before, after;
  Add(before, "/opt/one/x.cc", 10, "F()");
  Add(before, "/srv/two/x.cc", 10, "F()");
  Add(after, "/var/three/x.cc", 10, "F()");
  EXPECT_THAT(Pairs(before, after),
              UnorderedElementsAre("- /opt/one/x.cc:10", "- /srv/two/x.cc:10", "+ /var/three/x.cc:10"));
}

TEST(LineMatchTest, AFunctionMovedAsAWhole) {
  SyntheticProgram before, after;
  for (const std::uint32_t line : {10, 11, 15}) Add(before, "/a/x.cc", line, "F()");
  for (const std::uint32_t line : {11, 12, 16}) Add(after, "/a/x.cc", line, "F()");
  // Line 11 is in both, and yet it is another one.
  EXPECT_THAT(Pairs(before, after),
              UnorderedElementsAre("/a/x.cc:10 -> /a/x.cc:11", "/a/x.cc:11 -> /a/x.cc:12", "/a/x.cc:15 -> /a/x.cc:16"));
}

TEST(LineMatchTest, MovedWithALineMore) {
  SyntheticProgram before, after;
  for (const std::uint32_t line : {10, 12, 20}) Add(before, "/a/x.cc", line, "F()");
  for (const std::uint32_t line : {15, 17, 18, 25}) Add(after, "/a/x.cc", line, "F()");
  EXPECT_THAT(Pairs(before, after), UnorderedElementsAre("/a/x.cc:10 -> /a/x.cc:15", "/a/x.cc:12 -> /a/x.cc:17",
                                                         "+ /a/x.cc:18", "/a/x.cc:20 -> /a/x.cc:25"));
}

TEST(LineMatchTest, AnotherFunctionIsAnotherLine) {
  SyntheticProgram before, after;
  Add(before, "/a/x.cc", 10, "F()");
  Add(after, "/a/x.cc", 10, "G()");
  EXPECT_THAT(Pairs(before, after), UnorderedElementsAre("- /a/x.cc:10", "+ /a/x.cc:10"));
}

TEST(LineMatchTest, TemplateArgumentsAndParametersDoNotMatter) {
  SyntheticProgram before, after;
  Add(before, "/a/x.h", 10, "Buffer<float>::Buffer(unsigned long)");
  Add(before, "/a/x.h", 20, "operator<<(Stream&, int)");
  Add(after, "/a/x.h", 12, "Buffer<std::vector<int> >::Buffer(unsigned long, bool)");
  Add(after, "/a/x.h", 22, "operator<<(Stream&, int)");
  EXPECT_THAT(Pairs(before, after), UnorderedElementsAre("/a/x.h:10 -> /a/x.h:12", "/a/x.h:20 -> /a/x.h:22"));
}

class SourceTest : public testing::Test {
 protected:
  SourceTest() {
    folder_ = std::filesystem::path(testing::TempDir()) / ("line_match_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  ~SourceTest() override { std::filesystem::remove_all(folder_); }
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  std::filesystem::path folder_;
};

TEST_F(SourceTest, TextDecidesWhichLineIsNew) {
  std::filesystem::create_directories(folder_ / "a");
  std::filesystem::create_directories(folder_ / "b");
  const std::string first = Write("a/x.py", "a = zeros(1)\nb = zeros(2)\nc = zeros(3)\n");
  const std::string second = Write("b/x.py", "new = zeros(7)\na = zeros(1)\n  b = zeros(5)\nc = zeros(3)\n");
  SyntheticProgram before, after;
  for (const std::uint32_t line : {1, 2, 3}) Add(before, first, line, "f");
  for (const std::uint32_t line : {1, 2, 3, 4}) Add(after, second, line, "f");
  SourceLines before_source("", 0), after_source("", 0);
  // By distance alone lines 1 to 3 would have stayed. The text of b is edited; it is alone between a and c.
  EXPECT_THAT(Pairs(before, after, &before_source, &after_source),
              UnorderedElementsAre("+ " + second + ":1", first + ":1 -> " + second + ":2",
                                   first + ":2 -> " + second + ":3", first + ":3 -> " + second + ":4"));
  EXPECT_THAT(Pairs(before, after), testing::Contains("+ " + second + ":4"));
}

TEST_F(SourceTest, TextThatWasWrittenAfterTheRunIsNotBelieved) {
  std::filesystem::create_directories(folder_ / "a");
  std::filesystem::create_directories(folder_ / "b");
  const std::string first = Write("a/x.py", "a = zeros(1)\nb = zeros(2)\n");
  const std::string second = Write("b/x.py", "import y\na = zeros(1)\n");
  SyntheticProgram before, after;
  for (const std::uint32_t line : {1, 2}) Add(before, first, line, "f");
  Add(after, second, 2, "f");
  SourceLines source("", 0), after_source("", 0), changed("", 1);  // of a run that began in 1970
  EXPECT_THAT(Pairs(before, after, &source, &after_source),
              UnorderedElementsAre(first + ":1 -> " + second + ":2", "- " + first + ":2"));
  EXPECT_THAT(Pairs(before, after, &changed, &after_source),
              UnorderedElementsAre("- " + first + ":1", first + ":2 = " + second + ":2"));
}

TEST(LineMatchTest, WithoutAFileByFunctionOrOffset) {
  SyntheticProgram before, after;
  for (SyntheticProgram* program : {&before, &after}) {
    const auto module = program->AddModule(program == &before ? "/a/libnet.so" : "/b/libnet.so");
    program->Malloc(program->AddStack({program->AddFrame("", 0, "Net::Load()", module)}), 4096);
    const auto bare = program->AddFrame("", 0, "", module);
    program->raw().frames[bare].offset = program == &before ? 0x10 : 0x20;
    program->Malloc(program->AddStack({bare}), 4096);
  }
  EXPECT_THAT(Pairs(before, after),
              UnorderedElementsAre("Net::Load() in libnet.so", "- libnet.so+0x10", "+ libnet.so+0x20"));
}

}  // namespace
}  // namespace cuheap::analysis
