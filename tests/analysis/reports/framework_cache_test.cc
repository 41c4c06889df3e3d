#include "analysis/reports/framework_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/analysis/reports/cached_program.h"

namespace cuheap::analysis {
namespace {

struct View {
  explicit View(const CachedProgram& program)
      : snapshot(program.Snapshot()), blocks(JoinBlocks(snapshot)), caches(snapshot, blocks), lines(snapshot, {}) {}
  View(const View&) = delete;
  FrameworkCache Cache() const { return caches.Describe(0, lines); }
  CacheState At(std::uint64_t position) const { return caches.At(0, position); }
  const Snapshot snapshot;
  const Blocks blocks;
  const FrameworkCaches caches;
  const LineTable lines;
};

std::vector<std::pair<std::uint64_t, bool>> Layout(const CacheSegment& segment) {
  std::vector<std::pair<std::uint64_t, bool>> layout;
  std::uint64_t at = segment.address;
  for (const CacheBlock& block : segment.blocks) {
    EXPECT_EQ(block.address, at) << "blocks leave no gap";
    at += block.bytes;
    layout.emplace_back(block.bytes, !block.idle());
  }
  EXPECT_EQ(at, segment.address + segment.bytes);
  return layout;
}

using BlockList = std::vector<std::pair<std::uint64_t, bool>>;

TEST(FrameworkCache, TensorsAndWhatLiesBetweenThem) {
  CachedProgram program;
  program.Held(kBase, 20 * kMiB);
  const std::uint64_t first = program.Tensor(kBase, 4 * kMiB);
  program.Tensor(kBase + 4 * kMiB, kMiB);
  program.Tensor(kBase + 10 * kMiB, 2 * kMiB);
  const std::uint64_t full = program.Events();
  program.Free(first);
  const View view(program);
  ASSERT_EQ(view.At(full).segments.size(), 1u);
  EXPECT_EQ(Layout(view.At(full).segments[0]),
            (BlockList{{4 * kMiB, true}, {kMiB, true}, {5 * kMiB, false}, {2 * kMiB, true}, {8 * kMiB, false}}));
  const CacheState end = view.At(full + 1);
  EXPECT_EQ(Layout(end.segments[0]),
            (BlockList{{4 * kMiB, false}, {kMiB, true}, {5 * kMiB, false}, {2 * kMiB, true}, {8 * kMiB, false}}));
  EXPECT_EQ(end.reserved, 20 * kMiB);
  EXPECT_EQ(end.used, 3 * kMiB);
  EXPECT_EQ(end.tensors, 2u);
  EXPECT_EQ(end.largest_idle, 8 * kMiB);
  EXPECT_EQ(end.idle_whole, 0u);
  EXPECT_EQ(end.idle_pinned(), 17 * kMiB);
  EXPECT_EQ(end.outside, 0u);
}

TEST(FrameworkCache, WholeSegmentsCanGoBackAndSmallOnesServeSmallRequests) {
  CachedProgram program;
  program.Held(kBase, 20 * kMiB);
  program.Held(kBase + 64 * kMiB, 2 * kMiB);
  program.Tensor(kBase + 64 * kMiB, 512);
  const View view(program);
  const CacheState state = view.At(program.Events());
  EXPECT_EQ(state.idle_whole, 20 * kMiB);
  EXPECT_EQ(state.idle_whole_segments, 1u);
  EXPECT_EQ(state.idle_pinned(), 2 * kMiB - 512);
  EXPECT_EQ(state.IdleUnusable(2 * kMiB - 4096), 2 * kMiB - 512) << "a large request finds no place in a small segment";
  EXPECT_EQ(state.IdleUnusable(kMiB), 20 * kMiB) << "nor a small one in a large segment";
  EXPECT_EQ(state.IdleUnusable(21 * kMiB), state.idle());
}

TEST(FrameworkCache, MappedPiecesThatTouchAreOneSegment) {
  CachedProgram program;
  std::vector<std::uint64_t> pieces;
  for (std::uint64_t i = 0; i < 4; ++i) {
    pieces.push_back(program.PlacedBlock(7 + i, 20 * kMiB, AllocationKind::kVirtual, 1));
    program.Map(pieces[i], kBase + (i < 3 ? i : 5) * 20 * kMiB, 20 * kMiB);
  }
  program.Tensor(kBase + 19 * kMiB, 2 * kMiB);  // over the border of two pieces
  const std::uint64_t mapped = program.Events();
  program.Map(pieces[2], kBase + 40 * kMiB, 20 * kMiB, false);
  program.Free(pieces[2]);
  const View view(program);
  const CacheState state = view.At(mapped);
  ASSERT_EQ(state.segments.size(), 2u);
  EXPECT_EQ(state.segments[0].bytes, 60 * kMiB);
  EXPECT_TRUE(state.segments[0].expandable);
  EXPECT_EQ(Layout(state.segments[0]), (BlockList{{19 * kMiB, false}, {2 * kMiB, true}, {39 * kMiB, false}}));
  EXPECT_EQ(state.segments[1].address, kBase + 100 * kMiB);
  EXPECT_EQ(view.At(program.Events()).segments[0].bytes, 40 * kMiB);
  EXPECT_EQ(view.At(program.Events()).reserved, 60 * kMiB);
  EXPECT_EQ(view.Cache().reserved_peak_bytes, 80 * kMiB);
}

TEST(FrameworkCache, MappingsWhoseEventsAreLostComeFromTheLiveTable) {
  CachedProgram program;
  const std::uint64_t piece = program.PlacedBlock(7, 2 * kMiB, AllocationKind::kVirtual, 1);
  program.Map(piece, kBase, 2 * kMiB);
  program.Tensor(kBase, 512);
  program.ForgetEvents();
  program.Tensor(kBase + 512, 1024);
  Snapshot snapshot = program.Snapshot();
  for (LiveAllocation& live : snapshot.live) {
    if (live.kind == AllocationKind::kVirtual) live.mapped_address = kBase;
  }
  const Blocks blocks = JoinBlocks(snapshot);
  const CacheState state = FrameworkCaches(snapshot, blocks).At(0, snapshot.events.size());
  ASSERT_EQ(state.segments.size(), 1u);
  EXPECT_EQ(state.used, 1536u);
  EXPECT_EQ(state.outside, 0u);
}

TEST(FrameworkCache, PeaksCurveAndTheLastTensor) {
  CachedProgram program;
  program.Held(kBase, 20 * kMiB);
  const std::uint64_t first = program.Tensor(kBase, 8 * kMiB);
  const std::uint64_t second = program.Tensor(kBase + 8 * kMiB, 8 * kMiB);
  program.Free(first);
  const std::uint64_t third = program.Tensor(kBase, 2 * kMiB);
  const std::uint64_t last = program.Events();
  program.Free(second);
  program.Free(third);
  const View view(program);
  const FrameworkCache cache = view.Cache();
  EXPECT_TRUE(cache.tensors_seen);
  EXPECT_EQ(cache.allocations, 3u);
  EXPECT_EQ(cache.frees, 3u);
  EXPECT_EQ(cache.tensor_peak_bytes, 16 * kMiB);
  EXPECT_EQ(cache.at_peak.used, 16 * kMiB);
  EXPECT_EQ(cache.at_last.used, 10 * kMiB);
  EXPECT_EQ(cache.at_last.time_ns, view.snapshot.events.time_ns[last - 1]);
  EXPECT_EQ(cache.at_end.used, 0u);
  EXPECT_EQ(cache.at_end.reserved, 20 * kMiB);
  std::uint64_t most = 0;
  for (const CachePoint& point : cache.curve) most = std::max(most, point.tensors);
  EXPECT_EQ(most, 16 * kMiB);
  EXPECT_EQ(cache.curve.back().reserved, 20 * kMiB);
}

TEST(FrameworkCache, TheRecordersPeakCountsWhereEventsAreLost) {
  CachedProgram program;
  program.raw().devices[0].tensor_peak_bytes = 99 * kMiB;
  program.raw().devices[0].tensor_peak_ns = 5;
  program.Held(kBase, 20 * kMiB);
  program.Tensor(kBase, kMiB);
  const FrameworkCache cache = View(program).Cache();
  EXPECT_EQ(cache.tensor_peak_bytes, 99 * kMiB);
  EXPECT_FALSE(cache.peak_exact);
}

TEST(FrameworkCache, PinsAreToldByLine) {
  CachedProgram program;
  for (std::uint64_t i = 0; i < 2; ++i) {
    const std::uint64_t at = kBase + i * 64 * kMiB;
    program.Held(at, 20 * kMiB);
    program.KeptTensor(at + 10 * kMiB, 512);
  }
  program.Tensor(kBase, 2 * kMiB);
  const View view(program);
  const FrameworkCache cache = view.Cache();
  ASSERT_EQ(cache.pins.size(), 2u);
  EXPECT_EQ(view.lines.line(cache.pins[0].line).line, 20u);
  EXPECT_EQ(cache.pins[0].tensors, 2u);
  EXPECT_EQ(cache.pins[0].bytes, 1024u);
  EXPECT_EQ(cache.pins[0].idle, 38 * kMiB - 1024);
  EXPECT_EQ(cache.pins[1].idle, 18 * kMiB - 512);
}

TEST(FrameworkCache, ARefusalCarriesWhatWasToldAndWhatWasIdle) {
  CachedProgram program;
  program.Held(kBase, 20 * kMiB);
  program.Tensor(kBase + 8 * kMiB, kMiB);
  program.OutOfMemory(18 * kMiB, kMiB, 20 * kMiB);
  for (int i = 0; i < 40; ++i) program.OutOfMemory(19 * kMiB, kMiB, 20 * kMiB);
  const FrameworkCache cache = View(program).Cache();
  EXPECT_EQ(cache.refusal_count, 41u);
  ASSERT_EQ(cache.refusals.size(), kMaxRefusals);
  EXPECT_EQ(cache.refusals[0].request, 18 * kMiB);
  EXPECT_EQ(cache.refusals[0].told_tensors, kMiB);
  EXPECT_EQ(cache.refusals[0].told_reserved, 20 * kMiB);
  EXPECT_EQ(cache.refusals[0].idle, 19 * kMiB);
  EXPECT_EQ(cache.refusals[0].unusable, 19 * kMiB);
  EXPECT_EQ(cache.refusals[0].largest_idle, 11 * kMiB);
}

TEST(FrameworkCache, TensorsOutsideOfAllSegmentsAreSaid) {
  CachedProgram program;
  program.Held(kBase, 2 * kMiB);
  program.Tensor(kBase - kMiB, 512);
  program.Tensor(kBase + 2 * kMiB, 1024);
  const CacheState state = View(program).At(program.Events());
  EXPECT_EQ(state.outside, 1536u);
  EXPECT_EQ(state.used, 0u);
  EXPECT_EQ(state.tensors, 2u);
}

TEST(FrameworkCache, DamagedRecordsDoNotOverflow) {
  CachedProgram program;
  program.Held(kBase, 2 * kMiB);
  program.Tensor(kBase, 2 * kMiB);
  program.Tensor(kBase + kMiB, 2 * kMiB);  // overlaps, and reaches beyond the segment
  program.Map(123, kBase, kMiB, false);    // unmapped, but never mapped
  const CacheState state = View(program).At(program.Events());
  EXPECT_EQ(state.idle(), 0u);
  EXPECT_EQ(state.idle_pinned(), 0u);
}

TEST(FrameworkCache, OnlyWhatFrameworksDid) {
  CachedProgram program;
  program.Malloc(program.Line("train.cc", 1, "Own"), 5 * kMiB);
  EXPECT_TRUE(View(program).caches.devices().empty());
  program.Held(kBase, 2 * kMiB);
  const View view(program);
  EXPECT_THAT(view.caches.devices(), ::testing::ElementsAre(0u));
  EXPECT_FALSE(view.Cache().tensors_seen);
}

}  // namespace
}  // namespace cuheap::analysis
