#include "interpose/recorder/journal_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "tests/interpose/recorder/journal_view.h"
#include "tests/interpose/recorder/recorded_child.h"

namespace cuheap::recorder {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryDirectory;

TEST(JournalFileTest, ANewJournalIsPrivateWholeAndReadable) {
  TemporaryDirectory directory;
  JournalFile file;
  OpenError error;
  ASSERT_TRUE(file.Create(directory.path().c_str(), 12, 34, error)) << error.text;
  EXPECT_STREQ(file.path(), (directory.path() + "/12-34.journal").c_str());
  struct stat facts;
  ASSERT_EQ(stat(file.path(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0600u);
  EXPECT_EQ(static_cast<std::uint64_t>(facts.st_size), journal::kHeaderBytes);
  EXPECT_GE(static_cast<std::uint64_t>(facts.st_blocks) * 512, journal::kHeaderBytes) << "the header has holes";
  EXPECT_EQ(testing::JournalView(file.path()).problem(), "no magic");
  file.Publish();
  testing::JournalView view(file.path());
  EXPECT_EQ(view.problem(), "");
  EXPECT_EQ(view.header().pid, 12u);
  EXPECT_EQ(view.header().start_ticks, 34u);
}

TEST(JournalFileTest, ExtentsAreAllocatedZeroAndInOrder) {
  TemporaryDirectory directory;
  JournalFile file;
  OpenError error;
  ASSERT_TRUE(file.Create(directory.path().c_str(), 1, 2, error)) << error.text;
  for (int i = 0; i < 5; ++i) {
    const auto added = file.AddExtent(journal::ExtentKind::kNotes, 70 + i, 8192, 4096);
    ASSERT_NE(added.memory, nullptr);
    ASSERT_EQ(added.bytes, 8192u);
    const auto* bytes = static_cast<const char*>(added.memory);
    for (int k = 0; k < 8192; ++k) ASSERT_EQ(bytes[k], 0);
    std::memset(added.memory, 'a' + i, 8192);
  }
  struct stat facts;
  ASSERT_EQ(stat(file.path(), &facts), 0);
  EXPECT_EQ(static_cast<std::uint64_t>(facts.st_size), journal::kHeaderBytes + 5 * 8192);
  EXPECT_GE(facts.st_blocks * 512, facts.st_size) << "the file has holes";
  ASSERT_EQ(file.header()->extent_count.load(), 5u);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(file.header()->extents[i].offset, journal::kHeaderBytes + i * 8192u);
    EXPECT_EQ(file.header()->extents[i].owner, 70u + i);
  }
}

TEST(JournalFileTest, KeepsNoDescriptor) {
  TemporaryDirectory directory;
  const int before = dup(0);
  close(before);
  JournalFile file;
  OpenError error;
  ASSERT_TRUE(file.Create(directory.path().c_str(), 1, 2, error)) << error.text;
  ASSERT_NE(file.AddExtent(journal::ExtentKind::kNotes, 0, 4096, 4096).memory, nullptr);
  const int after = dup(0);
  close(after);
  EXPECT_EQ(before, after);
}

TEST(JournalFileTest, AnImageAfterExecGetsItsOwnFile) {
  TemporaryDirectory directory;
  OpenError error;
  JournalFile first, second;
  ASSERT_TRUE(first.Create(directory.path().c_str(), 1, 2, error));
  ASSERT_TRUE(second.Create(directory.path().c_str(), 1, 2, error));
  EXPECT_STREQ(second.path(), (directory.path() + "/1-2.1.journal").c_str());
  EXPECT_EQ(first.header()->image, 0u);
  EXPECT_EQ(second.header()->image, 1u);
}

TEST(JournalFileTest, MakesNoDirectory) {
  TemporaryDirectory directory;
  const std::string inner = directory.path() + "/inner";
  OpenError error;
  JournalFile file;
  EXPECT_FALSE(file.Create(inner.c_str(), 1, 2, error));
  EXPECT_NE(std::string(error.text).find("mkdir -m 700"), std::string::npos) << error.text;
  EXPECT_NE(access(inner.c_str(), F_OK), 0);
}

TEST(JournalFileTest, RefusesDirectoriesOpenToOthers) {
  TemporaryDirectory directory;
  OpenError error;
  for (mode_t mode : {0750, 0701, 0720, 0777}) {
    ASSERT_EQ(chmod(directory.path().c_str(), mode), 0);
    JournalFile file;
    EXPECT_FALSE(file.Create(directory.path().c_str(), 1, 2, error));
    EXPECT_NE(std::string(error.text).find("open to other users"), std::string::npos) << error.text;
  }
  ASSERT_EQ(chmod(directory.path().c_str(), 0700), 0);
  EXPECT_TRUE(directory.Journals().empty());
}

TEST(JournalFileTest, RefusesLinksAndFilesAndForeignOwners) {
  TemporaryDirectory directory;
  OpenError error;
  const std::string real = directory.path() + "/real", link = directory.path() + "/link",
                    plain = directory.path() + "/plain";
  ASSERT_EQ(mkdir(real.c_str(), 0700), 0);
  ASSERT_EQ(symlink(real.c_str(), link.c_str()), 0);
  close(open(plain.c_str(), O_CREAT | O_WRONLY, 0600));
  JournalFile file;
  EXPECT_FALSE(file.Create(link.c_str(), 1, 2, error));
  EXPECT_NE(std::string(error.text).find("link"), std::string::npos) << error.text;
  EXPECT_FALSE(file.Create(plain.c_str(), 1, 2, error));
  EXPECT_FALSE(file.Create((directory.path() + "/no/such").c_str(), 1, 2, error));
  if (geteuid() != 0) GTEST_SKIP() << "giving a directory away needs root";
  ASSERT_EQ(chown(real.c_str(), 12345, 12345), 0);
  EXPECT_FALSE(file.Create(real.c_str(), 1, 2, error));
  EXPECT_NE(std::string(error.text).find("another user"), std::string::npos) << error.text;
}

TEST(JournalFileTest, AFullDiskIsNoCrashAndNoSystemCallStorm) {
  TemporaryDirectory directory;
  JournalFile file;
  OpenError error;
  ASSERT_TRUE(file.Create(directory.path().c_str(), 1, 2, error)) << error.text;
  // The limit on file size stands for the full disk. Growing beyond it would send SIGXFSZ, which ends this test.
  rlimit old;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const rlimit small{journal::kHeaderBytes + 3 * 4096, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto fits = file.AddExtent(journal::ExtentKind::kNotes, 0, 8192, 4096);
  const auto smaller = file.AddExtent(journal::ExtentKind::kNotes, 0, 8192, 4096);
  const auto none = file.AddExtent(journal::ExtentKind::kNotes, 0, 8192, 4096);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  EXPECT_EQ(fits.bytes, 8192u);
  EXPECT_EQ(smaller.bytes, 4096u) << "the smaller size still fits";
  EXPECT_EQ(none.memory, nullptr);
  EXPECT_TRUE(file.out_of_space());
  // Within the next second nothing is tried, although there is room again.
  EXPECT_EQ(file.AddExtent(journal::ExtentKind::kNotes, 0, 8192, 4096).memory, nullptr);
  usleep(1'100'000);
  EXPECT_NE(file.AddExtent(journal::ExtentKind::kNotes, 0, 8192, 4096).memory, nullptr);
}

TEST(JournalFileTest, AReplacedFileIsNotGrown) {
  TemporaryDirectory directory;
  JournalFile file;
  OpenError error;
  ASSERT_TRUE(file.Create(directory.path().c_str(), 1, 2, error)) << error.text;
  fs::rename(file.path(), directory.path() + "/moved");
  close(open(file.path(), O_CREAT | O_RDWR, 0600));
  EXPECT_EQ(file.AddExtent(journal::ExtentKind::kNotes, 0, 4096, 4096).memory, nullptr);
  EXPECT_EQ(fs::file_size(file.path()), 0u);
}

}  // namespace
}  // namespace cuheap::recorder
