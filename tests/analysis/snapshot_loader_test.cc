// What the loader says about files that are no sound snapshots: one error, with the file, the place and what to do.
#include "analysis/snapshot_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zstd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "analysis/snapshot_check.h"
#include "analysis/snapshot_writer.h"
#include "tests/analysis/test_snapshot.h"

namespace cuheap::analysis {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using Json = nlohmann::ordered_json;

Json Sound() { return Json::parse(SnapshotToJson(DistinctSnapshot())); }

std::string ErrorOf(const std::string& text) {
  const auto loaded = LoadSnapshotFromMemory(text, "a.json");
  EXPECT_FALSE(loaded.ok()) << "accepted: " << text.substr(0, 200);
  return std::string(loaded.status().message());
}
std::string ErrorOf(const Json& json) { return ErrorOf(json.dump()); }

TEST(SnapshotLoaderTest, OrderAndWhiteSpaceDoNotMatter) {
  const auto loaded =
      LoadSnapshotFromMemory(nlohmann::json::parse(SnapshotToJson(DistinctSnapshot())).dump(3), "sorted");
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  ExpectSameSnapshot(DistinctSnapshot(), *loaded);
}

TEST(SnapshotLoaderTest, MembersThatAreNotKnownAreSkipped) {
  Json json = Sound();
  json["later"] = {{"nested", {1, 2, {{"x", nullptr}}}}};
  json["process"]["later"] = 1.5;
  json["events"]["later"] = Json::array({1, 2});
  const auto loaded = LoadSnapshotFromMemory(json.dump(), "x");
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  ExpectSameSnapshot(DistinctSnapshot(), *loaded);
}

TEST(SnapshotLoaderTest, WordsOfTheFileDecideWhatNumbersMean) {
  Json json = Sound();
  Json& words = json["words"]["event_type"];
  std::swap(words[1], words[2]);
  words.push_back("a_later_type");
  json["events"]["type"][0] = words.size() - 1;
  const auto loaded = LoadSnapshotFromMemory(json.dump(), "x");
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ(loaded->events.type[1], EventType::kFree);
  EXPECT_EQ(loaded->events.type[2], EventType::kAllocate);
  EXPECT_EQ(loaded->events.type[0], EventType::kNone);
}

TEST(SnapshotLoaderTest, AFileThatIsSomethingElseSaysSo) {
  EXPECT_EQ(ErrorOf(std::string()),
            "a.json: byte 0 ($): not a cuheap snapshot: the file is empty; name a snapshot that cuheap wrote");
  EXPECT_THAT(ErrorOf(std::string("hello")), HasSubstr("not a cuheap snapshot: expected an object"));
  EXPECT_THAT(ErrorOf(std::string("\x80\x02}q", 4)), HasSubstr("the pickle is cut off"));
  EXPECT_THAT(ErrorOf(std::string("[1,2]")), HasSubstr("expected an object"));
  EXPECT_THAT(ErrorOf(std::string("{}")), HasSubstr("no member \"format\""));
  EXPECT_THAT(ErrorOf(std::string(R"({"traceEvents":[1]})")), HasSubstr("not a cuheap snapshot"));
  EXPECT_THAT(ErrorOf(std::string(R"({"format":"other"})")), HasSubstr("not a cuheap snapshot"));
}

TEST(SnapshotLoaderTest, AFutureVersionAsksForAnUpdate) {
  Json json = Sound();
  json["version"] = kSnapshotVersion + 1;
  json["events"] = "something that this version cannot read";
  const auto loaded = LoadSnapshotFromMemory(json.dump(), "a.json");
  EXPECT_EQ(loaded.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(loaded.status().message()),
              AllOf(StartsWith("a.json: byte "), HasSubstr("made by a newer cuheap: update")));
  json["version"] = 0;
  EXPECT_EQ(LoadSnapshotFromMemory(json.dump(), "a.json").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(SnapshotLoaderTest, EveryTruncationIsOneError) {
  const std::string text = SnapshotToJson(DistinctSnapshot());
  ASSERT_EQ(text.substr(text.size() - 3), "\n}\n");
  for (std::size_t size = 1; size + 2 < text.size(); ++size) {
    const auto loaded = LoadSnapshotFromMemory(text.substr(0, size), "a.json");
    ASSERT_FALSE(loaded.ok()) << size;
    const std::string message(loaded.status().message());
    ASSERT_THAT(message, AllOf(StartsWith("a.json: byte "), HasSubstr("cut off"), HasSubstr("again (cuheap run")))
        << size;
  }
  EXPECT_THAT(ErrorOf(text + "x"), HasSubstr("text behind the end"));
}

// What version 1 did not have from its beginning: older files lack it.
bool IsOptional(const std::string& name) {
  return name == "mapped_address" || name.starts_with("tensor_") || name.starts_with("framework_") ||
         name.starts_with("exit_") || name == "recorder" || name == "driver_time";
}

TEST(SnapshotLoaderTest, FilesOfAnEarlierCuheapAreRead) {
  Json json = Sound();
  for (Json& device : json["devices"]) {
    const Json members = device;
    for (const auto& member : members.items()) {
      if (IsOptional(member.key())) device.erase(member.key());
    }
  }
  json.erase("recorder");
  json["live"].erase("mapped_address");
  json["segments"].erase("mapped_address");
  const absl::StatusOr<Snapshot> loaded = LoadSnapshotFromMemory(json.dump(), "a.json");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->devices[0].tensor_peak_bytes, 0u);
  EXPECT_EQ(loaded->live[0].mapped_address, 0u);
  EXPECT_EQ(loaded->recorder, "cuheap");
  json = Sound();
  json["live"]["mapped_address"].erase(0);
  EXPECT_THAT(ErrorOf(json), HasSubstr("mapped_address"));
}

TEST(SnapshotLoaderTest, EveryMissingMemberIsNamed) {
  const Json sound = Sound();
  for (const auto& [name, value] : sound.items()) {
    Json json = Sound();
    if (IsOptional(name)) continue;
    json.erase(name);
    EXPECT_THAT(ErrorOf(json), HasSubstr("no member \"" + name + "\"")) << name;
    if (!value.is_object() || name == "configuration" || name == "counters") continue;
    for (const auto& inner : value.items()) {
      if (IsOptional(inner.key())) continue;
      json = Sound();
      json[name].erase(inner.key());
      EXPECT_THAT(ErrorOf(json), HasSubstr("no member \"" + inner.key() + "\"")) << name;
    }
  }
  for (const char* table : {"devices", "modules", "threads", "notes"}) {
    const Json rows = Sound()[table];
    for (const auto& inner : rows[1].items()) {
      if (IsOptional(inner.key())) continue;
      Json json = Sound();
      json[table][1].erase(inner.key());
      EXPECT_THAT(ErrorOf(json),
                  AllOf(HasSubstr("no member \"" + inner.key() + "\""), HasSubstr("$." + std::string(table))));
    }
  }
}

TEST(SnapshotLoaderTest, EveryWrongTypeIsAnErrorAtItsPlace) {
  const Json sound = Sound();
  for (const auto& [name, value] : sound.items()) {
    Json json = Sound();
    json[name] = value.is_string() ? Json(1) : Json("text");
    EXPECT_THAT(ErrorOf(json), HasSubstr("$." + name)) << name;
    if (!value.is_object()) continue;
    for (const auto& [inner, inner_value] : value.items()) {
      json = Sound();
      json[name][inner] = inner_value.is_string() ? Json(1) : Json("text");
      EXPECT_THAT(ErrorOf(json), HasSubstr("$." + name + "." + inner)) << name << "." << inner;
      if (!inner_value.is_array() || inner_value.empty()) continue;
      json = Sound();
      json[name][inner].back() = inner_value.back().is_string() ? Json(1) : Json("text");
      EXPECT_THAT(ErrorOf(json),
                  HasSubstr("$." + name + "." + inner + "[" + std::to_string(inner_value.size() - 1) + "]"));
    }
  }
}

TEST(SnapshotLoaderTest, ColumnsMustHaveOneLength) {
  for (const char* table : {"frames", "live", "segments", "events"}) {
    const Json columns = Sound()[table];
    for (const auto& column : columns.items()) {
      Json json = Sound();
      json[table][column.key()].erase(0);
      EXPECT_THAT(ErrorOf(json), AllOf(HasSubstr("$." + std::string(table) + "."), HasSubstr("elements, but")))
          << table;
    }
  }
}

TEST(SnapshotLoaderTest, IndicesMustBeInRange) {
  const std::vector<std::pair<const char*, const char*>> columns = {
      {"frames", "function"}, {"frames", "file"},    {"frames", "reason"},    {"frames", "module"},
      {"frames", "kind"},     {"live", "stack"},     {"live", "thread"},      {"live", "kind"},
      {"live", "allocator"},  {"segments", "stack"}, {"events", "stack"},     {"events", "thread"},
      {"events", "type"},     {"events", "kind"},    {"stacks", "truncated"}, {"stacks", "unwind_failed"}};
  for (const auto& [table, column] : columns) {
    Json json = Sound();
    const std::size_t last = json[table][column].size() - 1;
    json[table][column][last] = 200;
    EXPECT_THAT(ErrorOf(json), AllOf(HasSubstr("a.json: $." + std::string(table) + "." + column + "[" +
                                               std::to_string(last) + "]: 200 is no index"),
                                     HasSubstr("make the snapshot again")));
  }
  Json json = Sound();
  json["stacks"]["frames"][1][0] = 5;
  EXPECT_THAT(ErrorOf(json), HasSubstr("$.stacks.frames[1]: 5 is no index of frames, which has 5 entries"));
  json = Sound();
  json["events"]["time_ns"][3] = -1000;
  EXPECT_THAT(ErrorOf(json), HasSubstr("$.events.time_ns[3]: is earlier"));
  json = Sound();
  json["strings"][0] = "not empty";
  EXPECT_THAT(ErrorOf(json), HasSubstr("$.strings[0]"));
}

TEST(SnapshotLoaderTest, MembersThatAreThereTwiceAreErrors) {
  std::string text = SnapshotToJson(DistinctSnapshot());
  text.insert(1, R"("simulated":true,)");
  EXPECT_THAT(ErrorOf(text), HasSubstr("twice"));
}

TEST(SnapshotLoaderTest, EveryFlippedByteIsSurvived) {
  const std::string sound = SnapshotToJson(DistinctSnapshot());
  std::mt19937_64 random(4);
  for (std::size_t at = 0; at < sound.size(); ++at) {
    std::string text = sound;
    text[at] = static_cast<char>(random());
    const auto loaded = LoadSnapshotFromMemory(text, "a.json");
    if (!loaded.ok()) {
      ASSERT_THAT(std::string(loaded.status().message()), StartsWith("a.json: "));
    } else {
      ASSERT_FALSE(FindInconsistency(*loaded));
    }
  }
}

class SnapshotFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "snapshot loader XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string Path(const char* name) const { return (folder_ / name).string(); }
  std::string Put(const char* name, const std::string& text) const {
    std::ofstream(Path(name), std::ios::binary) << text;
    return Path(name);
  }
  static std::string ErrorOfFile(const std::string& path) {
    const auto loaded = LoadSnapshot(path);
    EXPECT_FALSE(loaded.ok());
    EXPECT_THAT(std::string(loaded.status().message()), StartsWith(path + ": "));
    return std::string(loaded.status().message());
  }
  static std::string Compress(const std::string& text) {
    std::string out(ZSTD_compressBound(text.size()), '\0');
    out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
    return out;
  }
  fs::path folder_;
};

TEST_F(SnapshotFileTest, FilesThatCannotBeReadAreNamed) {
  EXPECT_THAT(ErrorOfFile(Path("none.json")), HasSubstr("No such file"));
  EXPECT_THAT(ErrorOfFile(folder_.string()), HasSubstr("directory"));
  EXPECT_THAT(ErrorOfFile(Put("empty.json", "")), HasSubstr("empty"));
  if (geteuid() != 0) {
    const std::string path = Put("secret.json", "{}");
    fs::permissions(path, fs::perms::none);
    EXPECT_THAT(ErrorOfFile(path), HasSubstr("Permission denied"));
  }
}

TEST_F(SnapshotFileTest, DamagedCompressionIsNamed) {
  const std::string whole = Compress(SnapshotToJson(DistinctSnapshot()));
  ASSERT_TRUE(LoadSnapshot(Put("whole.zst", whole)).ok());
  ASSERT_TRUE(LoadSnapshot(Put("two frames.zst", Compress(SnapshotToJson(DistinctSnapshot())) + Compress("\n"))).ok());
  EXPECT_THAT(ErrorOfFile(Put("cut.zst", whole.substr(0, whole.size() / 2))), HasSubstr("cut off"));
  EXPECT_THAT(ErrorOfFile(Put("tiny.zst", whole.substr(0, 4))), HasSubstr("cut off"));
  std::string damaged = whole;
  for (std::size_t at = 20; at < 60; ++at) damaged[at] = static_cast<char>(~damaged[at]);
  EXPECT_FALSE(LoadSnapshot(Put("damaged.zst", damaged)).ok());
}

TEST_F(SnapshotFileTest, ACompressedFileMadeToExhaustMemoryIsRefused) {
  std::string many;
  while (many.size() < 100 << 20) many += "0,0,0,0,";
  const std::string bomb = Compress(R"({"format":"cuheap-snapshot","version":1,"later":")" + std::string(10, 'x') +
                                    "\",\"more\":[" + many);
  ASSERT_LT(bomb.size(), 100u << 10);
  EXPECT_THAT(ErrorOfFile(Put("bomb.zst", bomb)), HasSubstr("thousandfold"));
}

TEST_F(SnapshotFileTest, HugeGarbageFailsAtItsBeginning) {
  const std::string path = Put("huge.json", "garbage");
  fs::resize_file(path, std::uintmax_t{1} << 40);  // sparse
  EXPECT_THAT(ErrorOfFile(path), HasSubstr("byte 0"));
  fs::resize_file(path, 0);
  fs::resize_file(path, std::uintmax_t{1} << 40);
  EXPECT_THAT(ErrorOfFile(path), HasSubstr("byte 0"));
}

}  // namespace
}  // namespace cuheap::analysis
