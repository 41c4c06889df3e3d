// Why memory in pools is not used: every byte has one cause, and the words are right.
#include "analysis/reports/fragmentation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "analysis/reports/report.h"
#include "analysis/reports/report_json.h"
#include "analysis/reports/report_text.h"
#include "tests/analysis/reports/cached_program.h"

namespace cuheap::analysis {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr std::uint16_t kServed = 1;  // journal::kServedFromPool

std::string Text(const Snapshot& snapshot, bool map = false) {
  TextOptions options;
  options.map = map;
  return RenderText(MakeReport(snapshot), options);
}

// The same in one line, whatever was wrapped where.
std::string Flat(const Snapshot& snapshot) {
  std::string flat;
  for (const char c : Text(snapshot)) {
    const bool space = c == ' ' || c == '\n';
    if (!space || !flat.ends_with(' ')) flat += space ? ' ' : c;
  }
  return flat;
}

std::uint64_t Sum(const FragmentationState& state) {
  std::uint64_t sum = 0;
  for (const CauseShare& share : state.causes) {
    std::uint64_t lines = 0;
    for (const CauseLine& line : share.lines) lines += line.bytes;
    EXPECT_EQ(lines, share.bytes);
    sum += share.bytes;
  }
  return sum;
}

class Pooled : public SyntheticProgram {
 public:
  std::uint64_t Serve(std::uint32_t stack, std::uint64_t bytes, std::uint64_t address) {
    const std::uint64_t id = Malloc(stack, bytes, AllocationKind::kDevice, kServed);
    Place(id, address);
    raw().events.address.SetBack(address);
    return id;
  }
};

// cases.md B-01: a huge block is cut up by small ones before it is asked for again.
TEST(FragmentationTest, AHugeBlockCutUp) {
  constexpr std::uint64_t kHuge = 11'643'387'904;
  CachedProgram program;
  program.Held(kBase, kHuge);
  program.Free(program.Tensor(kBase, kHuge));
  std::vector<std::uint64_t> sizes(2, 16'515'072);
  sizes.push_back(11'400'192);
  sizes.insert(sizes.end(), 25, 18'191'360);
  std::uint64_t at = kBase;
  for (const std::uint64_t bytes : sizes) {
    program.KeptTensor(at, bytes);
    at += bytes;
  }
  program.OutOfMemory(kHuge, 499'214'336, kHuge);
  const Snapshot snapshot = program.Snapshot();
  const Report report = MakeReport(snapshot);
  ASSERT_EQ(report.fragmentation.size(), 1u);
  const FragmentationState& state = report.fragmentation[0].main();
  EXPECT_EQ(state.moment, FragmentationMoment::kRefusal);
  EXPECT_EQ(state.requested, 499'214'336u);
  EXPECT_EQ(state.of(IdleCause::kBesideBlocks).bytes, 11'144'173'568u);
  EXPECT_EQ(state.of(IdleCause::kWholeSegments).bytes, 0u) << "emptying the cache does not help";
  EXPECT_EQ(state.largest_idle, 11'144'173'568u);
  EXPECT_EQ(state.cut_up.block, kHuge);
  EXPECT_EQ(Describe(report.lines.line(state.cut_up.line)), "train.cc:10");
  const std::string text = Flat(snapshot);
  EXPECT_THAT(text, HasSubstr("Fragmentation: 10.4 GiB lie idle beside 476.1 MiB of tensors"));
  EXPECT_THAT(text, HasSubstr("Nothing can be handed back"));
  EXPECT_THAT(text, AllOf(HasSubstr("max_split_size_mb:32"), HasSubstr("or make the large one first")));
}

// cases.md B-02: the comb has no piece that is large enough.
TEST(FragmentationTest, AComb) {
  CachedProgram program;
  program.Held(kBase, 20 * kGiB);
  std::vector<std::uint64_t> blocks;
  for (std::uint64_t i = 0; i < 16; ++i) blocks.push_back(program.Tensor(kBase + i * kGiB, kGiB));
  for (std::size_t i = 0; i < 16; i += 2) program.Free(blocks[i]);
  program.OutOfMemory(9 * kGiB, 8 * kGiB, 20 * kGiB);
  const Snapshot snapshot = program.Snapshot();
  const Report report = MakeReport(snapshot);
  const FragmentationState& state = report.fragmentation.at(0).main();
  EXPECT_EQ(state.reserved, 20 * kGiB);
  EXPECT_EQ(state.of(IdleCause::kBesideBlocks).bytes, 12 * kGiB);
  EXPECT_EQ(state.of(IdleCause::kWholeSegments).bytes, 0u);
  EXPECT_EQ(state.largest_idle, 4 * kGiB) << "behind the last block";
  EXPECT_DOUBLE_EQ(1 - static_cast<double>(state.largest_idle) / static_cast<double>(state.unused()), 2.0 / 3.0);
  const std::string text = Flat(snapshot);
  EXPECT_THAT(text, HasSubstr("Fragmentation: 12.0 GiB lie idle beside 8.0 GiB of tensors, the largest piece 4.0 GiB"));
  EXPECT_THAT(text, HasSubstr("expandable_segments:True could use or give back"));
}

// Its variant: the last eight are freed instead.
TEST(FragmentationTest, AfterThePyramidTheRequestFits) {
  Pooled program;
  const auto line = program.Line("a.cc", 1, "A"), large = program.Line("a.cc", 9, "Large");
  program.Segment(kBase, 20 * kGiB);
  std::vector<std::uint64_t> blocks;
  for (std::uint64_t i = 0; i < 16; ++i) blocks.push_back(program.Serve(line, kGiB, kBase + i * kGiB));
  for (std::size_t i = 8; i < 16; ++i) program.Free(blocks[i]);
  Snapshot before = program.Snapshot();
  const Report report = MakeReport(before);
  EXPECT_EQ(report.fragmentation.at(0).main().largest_idle, 12 * kGiB);
  program.Serve(large, 9 * kGiB, kBase + 8 * kGiB);
  const Snapshot after = program.Snapshot();
  EXPECT_EQ(MakeReport(after).fragmentation.at(0).main().unused(), 3 * kGiB);
  EXPECT_TRUE(MakeReport(after).failures.empty());
}

// Rounding, whole segments, slabs and pieces of our pool, to the byte.
TEST(FragmentationTest, OurPoolsCausesAddUp) {
  Pooled program;
  const auto slab = program.Line("a.cc", 1, "Slab"), whole = program.Line("a.cc", 2, "Whole");
  const auto stays = program.Line("a.cc", 3, "Stays"), goes = program.Line("a.cc", 4, "Goes");
  program.Segment(kBase, 2 * kMiB);               // a slab of one size class
  program.Segment(kBase + 16 * kMiB, 64 * kMiB);  // without a block at the end
  program.Segment(kBase + 128 * kMiB, 20 * kMiB);
  program.Serve(slab, 1000, kBase);
  program.Serve(slab, 1024, kBase + 1024);
  program.Free(program.Serve(whole, 60 * kMiB, kBase + 16 * kMiB));
  program.Serve(stays, 8 * kMiB, kBase + 128 * kMiB);
  program.Free(program.Serve(goes, 8 * kMiB, kBase + 136 * kMiB));
  const Snapshot snapshot = program.Snapshot();
  const Report report = MakeReport(snapshot);
  const FragmentationState& state = report.fragmentation.at(0).main();
  EXPECT_EQ(state.reserved, 86 * kMiB);
  EXPECT_EQ(state.requested, 8 * kMiB + 2024);
  EXPECT_EQ(Sum(state), state.unused());
  EXPECT_EQ(state.of(IdleCause::kRounding).bytes, 24u);
  EXPECT_EQ(state.of(IdleCause::kOtherPart).bytes, 2 * kMiB - 2048);
  EXPECT_EQ(state.of(IdleCause::kBesideBlocks).bytes, 12 * kMiB);
  EXPECT_EQ(state.of(IdleCause::kWholeSegments).bytes, 64 * kMiB);
  const auto first = [&](IdleCause cause) { return Describe(report.lines.line(state.of(cause).lines.at(0).line)); };
  EXPECT_EQ(first(IdleCause::kRounding), "a.cc:1");
  EXPECT_EQ(first(IdleCause::kOtherPart), "a.cc:1");
  EXPECT_EQ(first(IdleCause::kBesideBlocks), "a.cc:3");
  EXPECT_EQ(first(IdleCause::kWholeSegments), "a.cc:2");
}

// A segment's idle bytes are charged once: to what is freed last.
TEST(FragmentationTest, WhatIsFreedLastKeepsTheSegment) {
  CachedProgram program;
  program.Held(kBase, 20 * kMiB);
  const std::uint64_t soon = program.Tensor(kBase, 8 * kMiB);
  program.KeptTensor(kBase + 8 * kMiB, 2 * kMiB);
  program.OutOfMemory(16 * kMiB, 10 * kMiB, 20 * kMiB);
  program.Free(soon);
  const Snapshot snapshot = program.Snapshot();
  const Report report = MakeReport(snapshot);
  const CauseShare& beside = report.fragmentation.at(0).main().of(IdleCause::kBesideBlocks);
  EXPECT_EQ(beside.bytes, 10 * kMiB);
  ASSERT_EQ(beside.lines.size(), 1u);
  EXPECT_EQ(Describe(report.lines.line(beside.lines[0].line)), "train.cc:20");
}

TEST(FragmentationTest, SmallSegmentsAndOtherStreamsAreAnotherPart) {
  CachedProgram program;
  program.Held(kBase, 2 * kMiB);
  program.Held(kBase + 64 * kMiB, 20 * kMiB);
  program.Held(kBase + 128 * kMiB, 20 * kMiB);
  program.Held(kBase + 192 * kMiB, 20 * kMiB);
  program.Tensor(kBase, 512);
  program.Tensor(kBase + 64 * kMiB, 4 * kMiB);
  program.Tensor(kBase + 128 * kMiB, 4 * kMiB);
  program.Tensor(kBase + 192 * kMiB, 4 * kMiB);
  Snapshot snapshot = program.Snapshot();
  for (LiveAllocation& live : snapshot.live) {
    if (live.address == kBase + 128 * kMiB && live.kind == AllocationKind::kDevice) live.stream = 7;
  }
  const Report report = MakeReport(snapshot);
  const FragmentationState& state = report.fragmentation.at(0).main();
  EXPECT_EQ(state.of(IdleCause::kOtherPart).bytes, 2 * kMiB - 512 + 16 * kMiB);
  EXPECT_EQ(state.of(IdleCause::kBesideBlocks).bytes, 32 * kMiB);
  EXPECT_EQ(Sum(state), state.unused());
}

// Just before it grows: the request, and why what was idle did not serve it.
TEST(FragmentationTest, TheRequestForWhichItGrew) {
  CachedProgram program;
  program.Held(kBase, 20 * kMiB);
  const std::uint64_t first = program.Tensor(kBase, 16 * kMiB);
  program.KeptTensor(kBase + 16 * kMiB, 4 * kMiB);
  program.Free(first);
  program.Held(kBase + 64 * kMiB, 18 * kMiB);
  program.Tensor(kBase + 64 * kMiB, 18 * kMiB);
  const Snapshot snapshot = program.Snapshot();
  const Report report = MakeReport(snapshot);
  const FragmentationState* growth = report.fragmentation.at(0).growth();
  ASSERT_NE(growth, nullptr);
  EXPECT_EQ(growth->request, 18 * kMiB);
  EXPECT_EQ(growth->reserved, 20 * kMiB);
  EXPECT_EQ(growth->of(IdleCause::kBesideBlocks).bytes, 16 * kMiB);
}

// 32 MiB are held for 4 MiB that stay: nothing to hand back but much cache would be "idle", not fragmentation.
TEST(FragmentationTest, IdleCacheIsNoFragmentation) {
  CachedProgram program;
  for (std::uint64_t i = 0; i < 4; ++i) program.Held(kBase + 64 * i * kMiB, 20 * kMiB);
  std::vector<std::uint64_t> temporary;
  for (std::uint64_t i = 0; i < 4; ++i) temporary.push_back(program.Tensor(kBase + 64 * i * kMiB, 20 * kMiB));
  for (const std::uint64_t id : temporary) program.Free(id);
  program.KeptTensor(kBase, 20 * kMiB);
  const std::string text = Flat(program.Snapshot());
  EXPECT_THAT(text,
              HasSubstr("Idle cache after a peak of 80.0 MiB in tensors, not fragmentation: 60.0 MiB (62,914,560 B) "
                        "can be handed back."));
  EXPECT_THAT(text, HasSubstr("torch.cuda.empty_cache() after what was last there (train.cc:10)"));
  EXPECT_THAT(text, AllOf(HasSubstr("IDLE MEMORY PyTorch's cache"), Not(HasSubstr("FRAGMENTATION"))));
}

TEST(FragmentationTest, NothingToSayNoSection) {
  CachedProgram program;
  program.Held(kBase, 20 * kMiB);
  program.Tensor(kBase, 20 * kMiB);
  const Snapshot snapshot = program.Snapshot();
  EXPECT_THAT(Text(snapshot), AllOf(Not(HasSubstr("FRAGMENTATION")), Not(HasSubstr("IDLE MEMORY"))));
  SyntheticProgram plain;
  plain.Malloc(plain.Line("a.cc", 1, "A"), kMiB);
  EXPECT_THAT(Text(plain.Snapshot()), Not(HasSubstr("FRAGMENTATION")));
  EXPECT_THAT(Text(plain.Snapshot(), true), HasSubstr("ADDRESS MAP  none"));
}

TEST(FragmentationTest, TheMapShowsEveryPlace) {
  CachedProgram program;
  program.Held(kBase, 32 * kMiB);
  program.Held(kBase + 64 * kMiB, 16 * kMiB);
  program.Tensor(kBase, 8 * kMiB);
  program.KeptTensor(kBase + 16 * kMiB, 512);
  const std::string text = Text(program.Snapshot(), true);
  EXPECT_THAT(
      text,
      HasSubstr("ADDRESS MAP  PyTorch's cache on device 0 when the last tensor was made; one place is 512.0 KiB"));
  EXPECT_THAT(text, HasSubstr("0x10000000      32.0 MiB  25.0 %  "
                              "AAAAAAAAAAAAAAAA................b...............................\n"))
      << text;
  EXPECT_THAT(text, HasSubstr("0x14000000      16.0 MiB   0.0 %  ................................\n"));
  EXPECT_THAT(text, HasSubstr("  A     8.0 MiB  train.cc:10  Forward"));
}

TEST(FragmentationTest, JsonHasTheCausesAndTheMap) {
  CachedProgram program;
  program.Held(kBase, 32 * kMiB);
  program.Tensor(kBase, 8 * kMiB);
  const Snapshot snapshot = program.Snapshot();
  const nlohmann::json json = nlohmann::json::parse(RenderJson(MakeReport(snapshot)));
  const nlohmann::json& entry = json["fragmentation"].at(0);
  EXPECT_EQ(entry["owner"], "pytorch");
  const nlohmann::json& last = entry["moments"].back();
  EXPECT_EQ(last["moment"], "last_tensor");
  EXPECT_EQ(last["causes"]["beside_blocks"]["bytes"], 24 * kMiB);
  EXPECT_EQ(last["causes"]["beside_blocks"]["lines"][0]["line"], "train.cc:10");
  EXPECT_EQ(entry["map"]["segments"][0]["blocks"][0]["bytes"], 8 * kMiB);
  EXPECT_EQ(entry["map"]["segments"][0]["causes"]["beside_blocks"], 24 * kMiB);
}

}  // namespace
}  // namespace cuheap::analysis
