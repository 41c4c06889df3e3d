// What other settings of PyTorch's allocator would hold, of programs whose allocator is played by hand.
#include "analysis/reports/allocator_settings.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "analysis/reports/allocator_settings_words.h"
#include "analysis/reports/report.h"
#include "analysis/reports/report_text.h"
#include "tests/analysis/reports/cached_program.h"

namespace cuheap::analysis {
namespace {

// Tensors that fill a segment each, as PyTorch places them. Then larger ones, which need new segments.
class Ordered : public CachedProgram {
 public:
  std::vector<std::uint64_t> Fill(int count, std::uint64_t mib) {
    std::vector<std::uint64_t> tensors;
    for (int i = 0; i < count; ++i) {
      segments_.push_back(Held(next_, mib * kMiB));
      tensors.push_back(Tensor(next_, mib * kMiB));
      next_ += mib * kMiB;
    }
    return tensors;
  }
  void FreeAll(const std::vector<std::uint64_t>& tensors) {
    for (const std::uint64_t tensor : tensors) Free(tensor);
  }
  void SmallThenLarge() {
    FreeAll(Fill(8, 16));
    FreeAll(Fill(4, 32));
  }
  void GiveBack() {
    for (const std::uint64_t segment : std::exchange(segments_, {})) Free(segment);
  }

 private:
  std::uint64_t next_ = kBase;
  std::vector<std::uint64_t> segments_;
};

AllocatorSettings Of(const Snapshot& snapshot) {
  const Report report = MakeReport(snapshot);
  EXPECT_EQ(report.allocator_settings.size(), 1U);
  return report.allocator_settings.empty() ? AllocatorSettings{} : report.allocator_settings.front();
}

// With what was wrapped joined again.
std::string OneLine(const std::string& text) {
  std::string line;
  for (const char letter : text) {
    const char plain = letter == '\n' ? ' ' : letter;
    if (plain != ' ' || line.empty() || line.back() != ' ') line += plain;
  }
  return line;
}

TEST(AllocatorSettings, ExpandableSegmentsAreOfferedWithWhatTheyWouldHold) {
  Ordered program;
  program.SmallThenLarge();
  const Snapshot snapshot = program.Snapshot();
  const AllocatorSettings settings = Of(snapshot);
  EXPECT_EQ(settings.check, SettingsCheck::kReproduced);
  EXPECT_EQ(settings.held_peak, 256 * kMiB);
  EXPECT_EQ(settings.replayed_peak, 256 * kMiB);
  EXPECT_EQ(settings.tensor_peak, 128 * kMiB);
  ASSERT_EQ(settings.options.size(), 1U) << "all tensors are under the smallest max_split_size";
  EXPECT_EQ(settings.options[0].set, "expandable_segments:True");
  EXPECT_EQ(settings.options[0].peak, 140 * kMiB);
  EXPECT_EQ(settings.options[0].saved, 116 * kMiB);
  const std::string text = RenderText(MakeReport(snapshot), {});
  EXPECT_NE(text.find("116.0 MiB    140.0 MiB   PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"), std::string::npos)
      << text;
}

TEST(AllocatorSettings, WhatWasSetAlreadyStays) {
  Ordered program;
  program.SmallThenLarge();
  program.raw().process.launcher["PYTORCH_CUDA_ALLOC_CONF"] = "max_split_size_mb:256";
  const Snapshot snapshot = program.Snapshot();
  const std::string text = RenderText(MakeReport(snapshot), {});
  EXPECT_NE(text.find("PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:256,expandable_segments:True"), std::string::npos)
      << text;
}

// Large tensors that come and go, of which smaller ones that stay take a piece each time.
void CutUpLargeBlocks(CachedProgram& program) {
  std::uint64_t at = kBase;
  for (int i = 0; i < 4; ++i) {
    program.Held(at, 200 * kMiB);
    program.Free(program.Tensor(at, 200 * kMiB));
    program.KeptTensor(at, 110 * kMiB);
    at += 200 * kMiB;
  }
}

TEST(AllocatorSettings, LargeBlocksThatAreCutUp) {
  CachedProgram program;
  CutUpLargeBlocks(program);
  const Snapshot snapshot = program.Snapshot();
  const AllocatorSettings settings = Of(snapshot);
  EXPECT_EQ(settings.check, SettingsCheck::kReproduced);
  EXPECT_EQ(settings.held_peak, 800 * kMiB);
  ASSERT_EQ(settings.options.size(), 2U);
  EXPECT_EQ(settings.options[0].set, "expandable_segments:True");
  EXPECT_EQ(settings.options[0].peak, (200 + 3 * 110 + 10) * kMiB) << "whole pages of 20 MiB";
  EXPECT_EQ(settings.options[1].set, "max_split_size_mb:128") << "the largest that does it";
  EXPECT_EQ(settings.options[1].peak, (200 + 4 * 110) * kMiB);
}

// The same, until the device has no more.
TEST(AllocatorSettings, RequestsThatWereRefusedAndWouldHaveFitted) {
  for (const bool fits : {true, false}) {
    CachedProgram program;
    CutUpLargeBlocks(program);
    program.OutOfMemory(fits ? 200 * kMiB : 400 * kMiB, 440 * kMiB, 800 * kMiB);
    const Snapshot snapshot = program.Snapshot();
    const AllocatorSettings settings = Of(snapshot);
    EXPECT_EQ(settings.refused, 1U);
    ASSERT_EQ(settings.options.size(), 2U);
    for (const SettingOption& option : settings.options) EXPECT_EQ(option.fitting, fits ? 1U : 0U) << option.set;
    const Report report = MakeReport(snapshot);
    const std::string text = OneLine(RenderText(report, {}));
    EXPECT_EQ(text.find("The request that was refused would have fitted.") != std::string::npos, fits) << text;
    const std::string advice = AdviceOnPieces(report, 0);
    EXPECT_TRUE(
        advice.starts_with(fits ? "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: by a replay it would have fit"
                                : "no setting of PyTorch's allocator"))
        << advice;
  }
}

TEST(AllocatorSettings, NothingIsPromisedWhereTheModelHoldsSomethingElse) {
  Ordered program;
  program.Fill(1, 40);
  program.Held(kBase + (std::uint64_t{1} << 40), 40 * kMiB);  // for another stream, say
  program.SmallThenLarge();
  const Snapshot snapshot = program.Snapshot();
  const AllocatorSettings settings = Of(snapshot);
  EXPECT_EQ(settings.check, SettingsCheck::kNotReproduced);
  EXPECT_TRUE(settings.options.empty());
  EXPECT_NE(RenderText(MakeReport(snapshot), {}).find("can't be told"), std::string::npos);
}

TEST(AllocatorSettings, NothingIsPromisedWhereEventsAreMissing) {
  Ordered program;
  program.SmallThenLarge();
  program.raw().completeness.events_dropped = 1;
  const AllocatorSettings settings = Of(program.Snapshot());
  EXPECT_EQ(settings.check, SettingsCheck::kIncomplete);
  EXPECT_EQ(settings.replayed_peak, 0U);
}

TEST(AllocatorSettings, NotLookedAtWhereTensorsAreNearlyAll) {
  Ordered program;
  program.Fill(8, 16);
  EXPECT_EQ(Of(program.Snapshot()).check, SettingsCheck::kLittleIdle);
}

TEST(AllocatorSettings, MemoryGivenBackByTheProgramIsGivenBackInTheReplay) {
  Ordered program;
  program.FreeAll(program.Fill(8, 16));
  program.GiveBack();
  program.FreeAll(program.Fill(4, 40));
  program.FreeAll(program.Fill(4, 50));
  const AllocatorSettings settings = Of(program.Snapshot());
  EXPECT_EQ(settings.held_peak, (4 * 40 + 4 * 50) * kMiB);
  EXPECT_EQ(settings.replayed_peak, settings.held_peak);
  ASSERT_FALSE(settings.options.empty());
  EXPECT_EQ(settings.options[0].peak, 200 * kMiB);
}

// The driver refused, and PyTorch emptied its cache. With less held it would not have been refused.
TEST(AllocatorSettings, MemoryGivenBackForWantOfItStaysInTheReplayOfOthers) {
  Ordered program;
  program.FreeAll(program.Fill(8, 16));
  program.Fails(program.Line("a.cc", 1, "main"), 32 * kMiB);
  program.GiveBack();
  program.FreeAll(program.Fill(4, 32));
  program.FreeAll(program.Fill(4, 36));
  const AllocatorSettings settings = Of(program.Snapshot());
  EXPECT_EQ(settings.held_peak, (4 * 32 + 4 * 36) * kMiB);
  EXPECT_EQ(settings.check, SettingsCheck::kReproduced);
  ASSERT_FALSE(settings.options.empty());
  EXPECT_EQ(settings.options[0].peak, 160 * kMiB) << "pages of 20 MiB for 4 times 36";
}

// A recording of PyTorch that began late: what was there already is placed first.
TEST(AllocatorSettings, TensorsFromBeforeTheRecordCount) {
  Ordered program;
  const std::vector<std::uint64_t> before = program.Fill(8, 16);
  program.ForgetEvents();
  program.raw().recorder = "pytorch";
  program.FreeAll(before);
  program.FreeAll(program.Fill(4, 32));
  const AllocatorSettings settings = Of(program.Snapshot());
  EXPECT_EQ(settings.check, SettingsCheck::kReproduced);
  EXPECT_EQ(settings.held_peak, 256 * kMiB);
  ASSERT_EQ(settings.options.size(), 1U);
  EXPECT_EQ(settings.options[0].peak, 140 * kMiB);
  program.raw().recorder = "cuheap";
  EXPECT_EQ(Of(program.Snapshot()).check, SettingsCheck::kIncomplete) << "its record loses what is not live at the end";
}

TEST(AllocatorSettings, NoneWithoutTensors) {
  CachedProgram program;
  program.Held(kBase, 20 * kMiB);
  const Snapshot snapshot = program.Snapshot();
  EXPECT_TRUE(MakeReport(snapshot).allocator_settings.empty());
}

}  // namespace
}  // namespace cuheap::analysis
