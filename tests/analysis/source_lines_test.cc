#include "analysis/source_lines.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace cuheap::analysis {
namespace {

class SourceLinesTest : public testing::Test {
 protected:
  SourceLinesTest() {
    folder_ = std::filesystem::path(testing::TempDir()) /
              (std::string("source lines ") + testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "train.py") << "import torch\n\n    total += loss  \r\nlast";
  }
  ~SourceLinesTest() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

TEST_F(SourceLinesTest, LinesAreGivenWithoutTheSpaceAround) {
  SourceLines source("", 0);
  const std::string file = (folder_ / "train.py").string();
  EXPECT_EQ(source.Line(file, 1), "import torch");
  EXPECT_EQ(source.Line(file, 2), "");
  EXPECT_EQ(source.Line(file, 3), "total += loss");
  EXPECT_EQ(source.Line(file, 4), "last");
  EXPECT_EQ(source.Line(file, 5), "");
  EXPECT_EQ(source.Line(file, 0), "");
}

TEST_F(SourceLinesTest, RelativePathsStartFromTheWorkingDirectory) {
  EXPECT_EQ(SourceLines(folder_.string(), 0).Line("train.py", 4), "last");
  EXPECT_EQ(SourceLines("", 0).Line("train.py", 4), "");
}

TEST_F(SourceLinesTest, WhatIsNoOrdinaryFileIsNotRead) {
  SourceLines source(folder_.string(), 0);
  ASSERT_EQ(mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  EXPECT_TRUE(source.Read("fifo").lines.empty());  // would wait for a writer
  EXPECT_TRUE(source.Read("/dev/zero").lines.empty());
  EXPECT_TRUE(source.Read(folder_.string()).lines.empty());
  EXPECT_TRUE(source.Read("not there").lines.empty());
  EXPECT_TRUE(source.Read("<stdin>").lines.empty());
  EXPECT_TRUE(source.Read("").lines.empty());
}

TEST_F(SourceLinesTest, AFileWrittenAfterTheStartIsChanged) {
  EXPECT_TRUE(SourceLines(folder_.string(), 1).Read("train.py").changed);
  EXPECT_FALSE(SourceLines(folder_.string(), std::int64_t{4'000'000'000} * 1'000'000'000).Read("train.py").changed);
}

}  // namespace
}  // namespace cuheap::analysis
