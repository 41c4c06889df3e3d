#include "analysis/ranks/rank_identity.h"

#include <gtest/gtest.h>

#include <optional>

namespace cuheap::analysis {
namespace {

TEST(RankIdentity, TorchrunTellsItself) {
  const RankIdentity identity =
      IdentifyRank({{"RANK", "11"}, {"LOCAL_RANK", "3"}, {"WORLD_SIZE", "16"}}, "x/first.4711.json");
  EXPECT_EQ(identity.source, RankSource::kLauncher);
  EXPECT_EQ(identity.rank, 11u);
  EXPECT_EQ(identity.local_rank, 3u);
  EXPECT_EQ(identity.world_size, 16u);
}

TEST(RankIdentity, ATorchrunThatSlurmStartedCounts) {
  const RankIdentity identity = IdentifyRank(
      {{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_LOCALID", "0"}}, "x");
  EXPECT_EQ(identity.rank, 5u);
  EXPECT_EQ(identity.world_size, 8u);
  EXPECT_EQ(identity.local_rank, 0u);
}

TEST(RankIdentity, SlurmMpiAndPmiAreKnown) {
  EXPECT_EQ(IdentifyRank({{"SLURM_PROCID", "7"}, {"SLURM_NTASKS", "8"}}, "x").rank, 7u);
  EXPECT_EQ(IdentifyRank({{"SLURM_PROCID", "0"}, {"OMPI_COMM_WORLD_RANK", "2"}}, "x").rank, 2u);
  EXPECT_EQ(IdentifyRank({{"PMI_RANK", "4"}, {"PMI_SIZE", "6"}}, "x").world_size, 6u);
}

TEST(RankIdentity, LauncherStandsBeforeTheFilesName) {
  const RankIdentity identity = IdentifyRank({{"RANK", "1"}}, "rank7.json");
  EXPECT_EQ(identity.rank, 1u);
  EXPECT_EQ(identity.source, RankSource::kLauncher);
  const RankIdentity named = IdentifyRank({{"RANK", ""}}, "rank7.json");
  EXPECT_EQ(named.rank, 7u);
  EXPECT_EQ(named.source, RankSource::kFileName);
  EXPECT_EQ(IdentifyRank({}, "first.4711.json").source, RankSource::kNone);
}

TEST(RankIdentity, WhatIsNoNumberIsNoRank) {
  for (const char* value : {"", "-1", "two", "1 2", "0x3", "99999999999999999999", "16777217"})
    EXPECT_EQ(IdentifyRank({{"RANK", value}}, "x").rank, std::nullopt) << value;
}

TEST(RankInFileName, IsFoundAsToolsWriteIt) {
  EXPECT_EQ(RankInFileName("out/rank0_memory_snapshot.pickle"), 0u);
  EXPECT_EQ(RankInFileName("memory_snapshot_rank12.pickle"), 12u);
  EXPECT_EQ(RankInFileName("snapshot.rank_003.pickle.zst"), 3u);
  EXPECT_EQ(RankInFileName("mem_Rank-7_step10.pickle"), 7u);
  EXPECT_EQ(RankInFileName("rank=4.json"), 4u);
  EXPECT_EQ(RankInFileName("rank03.node17.4711.json"), 3u);
  EXPECT_EQ(RankInFileName("rank1/rank2.json"), 2u) << "folders do not count";
}

TEST(RankInFileName, OtherWordsAndNumbersAreNone) {
  for (const char* name : {"", "rank", "rank.json", "frank2.json", "ranking3.json", "rank_x3.json", "first.4711.json",
                           "rank99999999999.json", "rank3/first.json"})
    EXPECT_EQ(RankInFileName(name), std::nullopt) << name;
}

}  // namespace
}  // namespace cuheap::analysis
