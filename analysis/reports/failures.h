// Allocations that the program was refused, and why.
//
// Note [The arithmetic of out of memory]
// request q, driver-free f, live a, idle in a pool i, total T; outside = T - f - a - i (context, other processes, other
// allocators), less the rounding r of live blocks. Then
//   f >= q               neither capacity nor fragmentation: a cap, a refusal of the driver, or a stale number;
//   i < q, f + i < q     capacity: no tidying of the pool could have helped; if outside is over 1 GiB, more than
//                        what is live, and f + i + outside >= q, somebody else holds it and is named first;
//   otherwise            idle memory of the pool could have helped: fragmentation, or cache not given back.
// Where f counts, q is what the driver must have: whole pages.
//
// Note [What is charged]
// The driver's own figure is not recorded at a failure, so what is free is reckoned: what was free at the start less
// what live blocks and the pool's segments take. That is more than was asked for: over 1 MiB the driver hands out whole
// pages of 2 MiB (measured footprints in public reports; docs/unverified.md), smaller blocks share such pages, as many
// as fit. In the pool's segments a gap behind a live block that is smaller than the block, or than a page, is rounding
// of that block: only larger ones are idle.
#ifndef CUHEAP_ANALYSIS_REPORTS_FAILURES_H_
#define CUHEAP_ANALYSIS_REPORTS_FAILURES_H_

#include <cstdint>
#include <vector>

#include "analysis/reports/blocks.h"
#include "analysis/reports/lines.h"
#include "analysis/reports/oom_context.h"
#include "analysis/reports/steps.h"
#include "analysis/reports/totals.h"
#include "analysis/snapshot.h"

namespace cuheap::analysis {

enum class OomVerdict : std::uint8_t {
  kNotMemory,    // the error is not about memory, or the figures are not known
  kUnexplained,  // enough was free: a cap, a refusal, a stale number
  kCapacity,     // the program asks for more than there is
  kOtherOwner,   // memory that is neither the program's nor the pool's fills the device
  kIdleInPool,   // idle memory of a pool could have served it
};

struct OomFigures {
  std::uint64_t request = 0, total = 0, free = 0, live = 0, idle = 0;  // bytes: q, T, f, a, i
  std::uint64_t rounding = 0;     // r: what live blocks take beyond their size, an estimate: see Note [What is charged]
  std::uint64_t needed() const;   // what the driver must have free: whole pages
  std::uint64_t outside() const;  // 0 if the others exceed the total
};
OomVerdict JudgeOom(const OomFigures& figures);

// PyTorch's allocator asks the driver again after it emptied its cache, and only then tells the program.
enum class FailureOutcome : std::uint8_t {
  kTold,             // nothing is known to stand between it and the program
  kBehindFramework,  // the framework told the program: FrameworkRefusal is the same failure
  kRecovered,        // the framework then got what it asked for, and told nobody
};

// Failures of one line with one error and one outcome.
struct Failure {
  Scope scope;
  std::uint32_t line = 0, stack = 0;  // stack: of the first one
  std::uint16_t result = 0;           // CUresult
  std::uint64_t count = 0;
  std::uint64_t largest_request = 0;
  std::int64_t first_ns = 0;
  std::uint64_t first_position = 0;  // see blocks.h
  std::uint32_t first_step = 0;
  FailureOutcome outcome = FailureOutcome::kTold;
  // At the first one. `free` is reckoned from what was free before the process's first allocation on the device,
  // and known only then: an estimate, since other processes come and go.
  OomFigures figures;
  bool free_known = false;
  OomVerdict verdict = OomVerdict::kNotMemory;
  OomContext context;  // at the first one
};
inline constexpr std::uint16_t kOutOfMemoryResult = 2;  // CUDA_ERROR_OUT_OF_MEMORY

// By time of the first failure.
std::vector<Failure> FindFailures(const Snapshot& snapshot, const Blocks& blocks, const LineTable& lines,
                                  const Steps& steps);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_FAILURES_H_
