// Writer and loader together: what is written is read back, in both forms.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "analysis/snapshot_check.h"
#include "analysis/snapshot_loader.h"
#include "analysis/snapshot_writer.h"
#include "tests/analysis/test_snapshot.h"

namespace cuheap::analysis {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class SnapshotIoTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "snapshot io XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override {
    fs::permissions(folder_, fs::perms::owner_all);
    fs::remove_all(folder_);
  }
  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.push_back(entry.path().filename());
    return names;
  }
  static std::string Contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  static void Put(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

  fs::path folder_;
};

TEST_F(SnapshotIoTest, TheTestSnapshotIsConsistent) {
  const auto wrong = FindInconsistency(DistinctSnapshot());
  EXPECT_FALSE(wrong) << wrong->place << ": " << wrong->problem;
}

TEST_F(SnapshotIoTest, EveryFieldComesBack) {
  const Snapshot snapshot = DistinctSnapshot();
  for (const char* name : {"a.json", "a.json.zst"}) {
    ASSERT_TRUE(WriteSnapshot(snapshot, Path(name)).ok());
    const auto loaded = LoadSnapshot(Path(name));
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    ExpectSameSnapshot(snapshot, *loaded);
  }
  EXPECT_EQ(Contents(Path("a.json")), SnapshotToJson(snapshot));
  EXPECT_EQ(Contents(Path("a.json.zst")).substr(0, 4), "\x28\xB5\x2F\xFD");
}

TEST_F(SnapshotIoTest, AnEmptySnapshotComesBack) {
  const auto loaded = LoadSnapshotFromMemory(SnapshotToJson(Snapshot{}), "empty");
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  ExpectSameSnapshot(Snapshot{}, *loaded);
}

TEST_F(SnapshotIoTest, SameSnapshotSameBytes) {
  for (const char* ending : {".json", ".json.zst"}) {
    ASSERT_TRUE(WriteSnapshot(DistinctSnapshot(), Path(std::string("a") + ending)).ok());
    ASSERT_TRUE(WriteSnapshot(DistinctSnapshot(), Path(std::string("b") + ending)).ok());
    EXPECT_EQ(Contents(Path(std::string("a") + ending)), Contents(Path(std::string("b") + ending)));
  }
}

TEST_F(SnapshotIoTest, CompressionIsSeenFromTheBytesNotTheName) {
  ASSERT_TRUE(WriteSnapshot(DistinctSnapshot(), Path("a.zst")).ok());
  fs::rename(Path("a.zst"), Path("a.json"));
  EXPECT_TRUE(LoadSnapshot(Path("a.json")).ok());
}

TEST_F(SnapshotIoTest, FilesArePrivateAndNothingElseIsLeft) {
  const mode_t before = umask(0);
  ASSERT_TRUE(WriteSnapshot(DistinctSnapshot(), Path("a.json")).ok());
  umask(before);
  struct stat facts;
  ASSERT_EQ(stat(Path("a.json").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
  EXPECT_THAT(Files(), testing::ElementsAre("a.json"));
}

TEST_F(SnapshotIoTest, ANewFileReplacesTheOldOne) {
  Put(Path("a.json"), std::string(1 << 20, 'x'));
  ASSERT_TRUE(WriteSnapshot(DistinctSnapshot(), Path("a.json")).ok());
  EXPECT_TRUE(LoadSnapshot(Path("a.json")).ok());
}

TEST_F(SnapshotIoTest, AFailedWriteIsAnErrorAndLeavesNothing) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  const absl::Status status = WriteSnapshot(DistinctSnapshot(), "/dev/full");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/dev/full"));
  EXPECT_FALSE(WriteSnapshot(DistinctSnapshot(), Path("no/such/folder.json")).ok());
  EXPECT_EQ(WriteSnapshot(DistinctSnapshot(), folder_.string()).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Files(), testing::IsEmpty());
}

TEST_F(SnapshotIoTest, BytesThatAreNotUtf8AreReplaced) {
  Snapshot snapshot;
  snapshot.process.working_directory =
      "a\xFF"
      "b";
  const auto loaded = LoadSnapshotFromMemory(SnapshotToJson(snapshot), "x");
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ(loaded->process.working_directory,
            "a\xEF\xBF\xBD"
            "b");
}

TEST_F(SnapshotIoTest, TablesLargerThanEveryBufferComeBack) {
  Snapshot snapshot = DistinctSnapshot();
  const Events once = snapshot.events;
  for (int i = 1; i < 5000; ++i) {
    const auto append = [](auto& column, const auto& more) {
      for (const auto value : more) column.push_back(value);
    };
    Events& e = snapshot.events;
    append(e.type, once.type), append(e.id, once.id), append(e.address, once.address), append(e.bytes, once.bytes);
    append(e.stream, once.stream), append(e.stack, once.stack), append(e.thread, once.thread);
    append(e.device, once.device), append(e.kind, once.kind), append(e.flags, once.flags);
    append(e.result, once.result);
    while (e.time_ns.size() < e.type.size()) e.time_ns.push_back(1'000'000 + i);
  }
  snapshot.strings.push_back(std::string(3 << 20, 'q'));
  for (const char* name : {"a.json", "a.json.zst"}) {
    ASSERT_TRUE(WriteSnapshot(snapshot, Path(name)).ok());
    const auto loaded = LoadSnapshot(Path(name));
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    ExpectSameSnapshot(snapshot, *loaded);
  }
}

}  // namespace
}  // namespace cuheap::analysis
