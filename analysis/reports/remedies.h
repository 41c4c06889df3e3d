// What would make a run need less memory, reckoned from its own trace: each remedy that applies, with the peak that the
// run would then have had.
//
// Note [Remedies]
// Each remedy is a plan of what would have been there in place of each block (what_if.h); the trace is replayed with
// it, and the new peak and its place are told. What a plan assumes is told too (remedy_words.h), since a record has
// which memory lived when, but not what read it. Remedies that would save less than 3 % of the peak are left out, and so
// is what the run does already. docs/remedies.md says how each is reckoned, and how well promises were kept when the
// remedies were applied.
//
// Note [Other GPUs]
// Shards need several ranks. A run of one process is told of them only if nothing else would save as much, and then of
// the stage that saves most, with 8 GPUs as an example.
#ifndef CUHEAP_ANALYSIS_REPORTS_REMEDIES_H_
#define CUHEAP_ANALYSIS_REPORTS_REMEDIES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/reports/blocks.h"
#include "analysis/reports/categories.h"
#include "analysis/reports/framework_frames.h"
#include "analysis/reports/leaks.h"
#include "analysis/reports/lines.h"
#include "analysis/reports/steps.h"
#include "analysis/reports/training_phases.h"
#include "analysis/reports/what_if.h"
#include "analysis/snapshot.h"

namespace cuheap::analysis {

enum class RemedyKind : std::uint8_t {
  kSmallerBatch,     // half the batch
  kAccumulation,     // the same batch in two passes
  kMixedPrecision,   // autocast
  kCheckpointing,    // of the calls of one module
  kOffloading,       // of what is saved for the backward pass, to the host
  kNoGrad,           // forward passes that no backward pass follows
  kDetach,           // what leaks, let go at the end of its step
  kDropGradients,    // when the optimizer has used them
  kFreeEarlier,      // batch, outputs and losses that outlive the backward pass
  kPlainSgd,         // in place of Adam: no state
  kMomentumSgd,      // in place of Adam: one number for each weight
  kEightBitAdam,     // a byte in place of four
  kFusedOptimizer,   // without temporaries
  kLoopOptimizer,    // temporaries of one weight at a time
  kShardOptimizer,   // ZeRO stage 1
  kShardGradients,   // ZeRO stage 2
  kShardParameters,  // ZeRO stage 3, FSDP
};
inline constexpr std::size_t kRemedyKinds = 17;

// Where a peak is.
struct PeakPlace {
  std::uint64_t bytes = 0;
  std::int64_t time_ns = 0;
  std::uint32_t step = 0;  // as in steps.h, 0: there are none
  Phase phase = Phase::kForward;
  WhatIf::ByCategory by_category{};
};

struct Remedy {
  RemedyKind kind = RemedyKind::kSmallerBatch;
  Confidence confidence = Confidence::kMedium;
  PeakPlace after;
  std::uint64_t saved = 0;              // of the peak
  std::uint64_t saved_at_old_peak = 0;  // less if the remedy adds something elsewhere, more if the peak moves
  std::vector<LineBytes> lines;         // whose blocks are smaller at the old peak, or gone; most bytes first
  std::string target;                   // kCheckpointing: the forward() of the modules to checkpoint
  std::uint32_t target_frame = 0;       // kCheckpointing: the frame that calls them, 0: not known
  std::uint32_t count = 0;              // sharding: ranks; checkpointing: calls in a pass
  bool example = false;                 // sharding: the run has no ranks, see Note [Other GPUs]; or their number is not known
  std::uint64_t added = 0;              // bytes that the remedy itself needs at most at one time (see remedy_words.h)
};

// What would help one device's tensors.
struct Remedies {
  Scope scope;
  PeakPlace peak;               // as it was
  std::vector<Remedy> entries;  // most saved first
};

struct RunFacts {
  const Snapshot& snapshot;
  const Blocks& blocks;
  const LineTable& lines;
  const FrameworkStacks& stacks;
  const Categories& categories;
  const Steps& steps;
  const std::vector<LeakFinding>& findings;
};
// By device. Only of devices on which single tensors of PyTorch were seen.
std::vector<Remedies> FindRemedies(const RunFacts& facts);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_REMEDIES_H_
