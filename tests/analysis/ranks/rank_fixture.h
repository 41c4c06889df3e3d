// Ranks in miniature: each a synthetic program, whose summary goes into one merge.
#ifndef CUHEAP_TESTS_ANALYSIS_RANKS_RANK_FIXTURE_H_
#define CUHEAP_TESTS_ANALYSIS_RANKS_RANK_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "analysis/ranks/rank_report.h"
#include "analysis/reports/report.h"
#include "tests/analysis/reports/synthetic.h"

namespace cuheap::analysis {

class RankFixture : public testing::Test {
 protected:
  static constexpr std::uint64_t kMiB = 1 << 20;
  static constexpr std::int64_t kStart = 1'700'000'000'000'000'000;

  struct Options {
    std::uint32_t rank = 0, world = 4;
    std::string host = "node1", uuid;
    std::uint64_t batch = 4 * kMiB;
    std::uint64_t leak = 0;  // bytes a step
    int steps = 12;
    std::uint64_t refused = 0;          // bytes, at the end
    std::int64_t started_after = 0;     // ns
    std::string launcher = "torchrun";  // "": none
    std::uint64_t pid = 0;
  };

  static Snapshot Run(const Options& options) {
    SyntheticProgram program;
    Process& process = program.raw().process;
    process.pid = options.pid != 0 ? options.pid : 1000 + options.rank;
    process.host = options.host;
    process.working_directory = "/src";
    process.start_realtime_ns = kStart + options.started_after;
    if (!options.launcher.empty()) {
      process.launcher = {{"RANK", std::to_string(options.rank)}, {"WORLD_SIZE", std::to_string(options.world)}};
      process.command_line = {"train", "--local-rank=" + std::to_string(options.rank)};
    }
    program.raw().devices[0].uuid = options.uuid.empty() ? "GPU-" + std::to_string(options.rank) : options.uuid;
    const std::uint32_t weights = program.Line("/src/train.cc", 10, "Weights");
    const std::uint32_t batch = program.Line("/src/train.cc", 20, "Batch");
    const std::uint32_t leak = program.Line("/src/train.cc", 30, "LogLoss");
    const std::uint32_t step_end = program.Line("/src/train.cc", 90, "Step");
    program.Malloc(weights, 8 * kMiB);
    for (int step = 0; step < options.steps; ++step) {
      const std::uint64_t block = program.Malloc(batch, options.batch);
      if (options.leak != 0) program.Malloc(leak, options.leak);
      program.Synchronize(step_end);
      program.Free(block);
    }
    if (options.refused != 0) program.Fails(batch, options.refused);
    return program.Snapshot();
  }

  void Add(const Options& options, const std::string& path = "") {
    const Snapshot snapshot = Run(options);
    merge_.Add(
        SummariseRank(MakeReport(snapshot), path.empty() ? "d/" + std::to_string(options.rank) + ".json" : path));
  }
  void AddAlike(std::uint32_t first, std::uint32_t last) {
    for (std::uint32_t rank = first; rank <= last; ++rank) Add({.rank = rank});
  }

  RankMerge merge_;
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_TESTS_ANALYSIS_RANKS_RANK_FIXTURE_H_
