// What was never freed, by line of the user's code, and whether it grows.
//
// Note [What is called a leak]
// Blocks that the program never freed are grouped by line and by the memory they lie in (a device, or the host), and
// the steps in which they were allocated are looked at:
//   - they go on being added until the end, every step, every k steps or irregularly: a leak;
//   - all in one step (weights, buffers of the set-up), or in several that ended well before the run did (a cache that
//     filled up, a workspace per stream): held, not growing. Listed apart;
//   - the newest few of a line whose older blocks were all freed (double buffers, the last step's result): held until
//     replaced, a class of its own;
//   - of a line that frees most of its blocks and has as much live as long before: a bounded cache, see live_trend.h;
//   - released by the end of their context while the program ran on (cudaDeviceReset as the way to free): what piled up
//     did so within the life of one context, so each life of a line is judged by itself. What does not grow in one is
//     told apart, with what it adds up to; it was never live together;
//   - asked for by a CUDA library for itself (cuBLAS workspace): held by a library, unless it grows;
//   - asked for by PyTorch's caching allocator: its cache. Growth of it is told, since tensors that leak hide there,
//   and
//     judged for the cache as a whole (MeasureCaches).
// Tensors of PyTorch are judged by themselves, in its cache or not. When a Python function returns, or the interpreter
// ends, it frees what its variables held, so that a list of losses is always "freed only at the end": tensors that are
// freed after the last step, or after all allocations, count as never freed. What a whole graph of autograd keeps is
// one finding (kept_graphs.h), and so are gradients that grow in the same steps. Other blocks that grow in number all
// through the run and are freed only when it ends (after the last step, or in exit handlers) are no leak to a checker
// and yet fill the device: they are told as "freed only at the end". Without steps, or where those do not cover the
// line (see clock_choice.h), blocks that keep coming until the last half of the run's allocations count as a leak, with
// low confidence. A line that several lines call (a wrapper function) is split by caller: the first calling lines that
// tell the stacks apart are judged each by itself, and their callers in turn. Those that grow in the same steps stay
// one finding; what does not grow is told apart from what does. If no caller grows alone, the line is judged as a
// whole, set-up by stack apart.
#ifndef CUHEAP_ANALYSIS_REPORTS_LEAKS_H_
#define CUHEAP_ANALYSIS_REPORTS_LEAKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/reports/blocks.h"
#include "analysis/reports/framework_frames.h"
#include "analysis/reports/lines.h"
#include "analysis/reports/steps.h"
#include "analysis/reports/totals.h"

namespace cuheap::analysis {

enum class LeakClass : std::uint8_t {
  kLeak,        // never freed and growing to the end
  kFreedAtEnd,  // grew all the run, freed only when it ended
  kCache,       // of PyTorch's allocator
  kLibrary,     // a CUDA library's own
  kContext,     // went with a context while the program ran on, not growing within the life of one
  kReplaced,    // the newest blocks of a line that frees its older ones (what both cost at the peak: replaced.h)
  kHeld,        // never freed, not growing
};

enum class GrowthShape : std::uint8_t {
  kEveryStep,
  kEveryFewSteps,  // every `period` steps
  kIrregular,      // in some steps, still in the last ones
  kOverTime,       // no steps known: spread over the run
  kBounded,        // new blocks replace older ones in no order: as much is live as long before, see live_trend.h
  kStopped,        // in several steps, none near the end
  kReplaced,       // the newest blocks of a line that frees its older ones
  kOnce,           // in one step, or at the start
};
bool Grows(GrowthShape shape);  // the first four

enum class Confidence : std::uint8_t { kLow, kMedium, kHigh };

struct StackShare {
  std::uint32_t stack = 0;
  std::uint64_t bytes = 0, blocks = 0;
};

// Why tensors of PyTorch stay, as far as it can be told from where they were allocated.
enum class LeakCause : std::uint8_t {
  kNone,            // not PyTorch's, or nothing to tell
  kGraph,           // a graph that is kept alive, see kept_graphs.h
  kScalar,          // single numbers: losses, metrics
  kTensor,          // some tensors of a line
  kGradient,        // made by backward passes
  kOptimizerState,  // made by an optimizer's step
};

struct SizedCount {
  std::uint64_t blocks = 0, bytes = 0;
};

// Of a finding that takes several lines together: one of them.
struct LeakPart {
  std::uint32_t line = 0;
  std::uint64_t blocks = 0, bytes = 0;
  double bytes_per_step = 0;
};

struct LeakFinding {
  LeakClass leak_class = LeakClass::kHeld;
  GrowthShape shape = GrowthShape::kOnce;
  Confidence confidence = Confidence::kLow;
  Scope scope;
  std::uint32_t line = 0;
  std::uint32_t caller = 0;  // the line whose use of `line` this is; 0: all uses, or several (see stacks)
  AllocationKind kind = AllocationKind::kNone;              // of the first block
  bool from_pytorch = false;                                // its allocator asked, cached or not
  std::string library;                                      // class kLibrary: who holds it
  std::uint64_t blocks = 0, bytes = 0, reserved_bytes = 0;  // reserved: what they occupy, at least bytes
  // Those among the blocks whose allocation lies before the events that were kept: steps, rate and shape are without
  // them.
  std::uint64_t before_window = 0;
  bool outside_steps = false;  // steps were found, but do not cover these blocks: told over time
  SizedCount replaces;         // older ones, from before the record, whose place these took: probably, see replacers.h
  std::uint64_t line_allocations = 0, line_frees = 0;  // all that the line (for `caller`) did in the window, here
  // Growth; steps as in steps.h, 0 if there are none.
  double bytes_per_step = 0;  // over the steps from the first to the last occurrence; irregular: to the end of the run
  double slope_bytes_per_step = 0,
         slope_r2 = 0;                     // least squares over the cumulated bytes of every step since the first
  std::uint64_t bytes_per_occurrence = 0;  // what a step adds that adds something, see growth.cc
  std::uint32_t period = 0;                // kEveryFewSteps
  // kOverTime: median time between two blocks; bytes_per_occurrence: median. Of graphs: means of the uses of the model,
  // of which there were `occurrences`.
  std::int64_t interval_ns = 0;
  std::uint32_t step_count = 0;   // steps of the run, or of the thread that allocates here if it has a loop of its own
  std::uint32_t step_thread = 0;  // that thread (index into threads + 1), 0: steps of the run
  std::uint32_t first_step = 0, last_step = 0, occurrences = 0;  // occurrences: number of steps that added something
  std::int64_t first_ns = 0, last_ns = 0;
  std::uint64_t freed_at_exit = 0;       // blocks freed by exit handlers, or after the last step
  std::uint64_t freed_with_context = 0;  // blocks that only the end of their context released
  std::vector<StackShare> stacks;        // most bytes first
  std::vector<std::uint32_t> steps;      // the steps that added something, ascending
  // Other lines of the same function that leak in the same steps (a function that returns early): indices of lines.
  std::vector<std::uint32_t> companions;
  LeakCause cause = LeakCause::kNone;
  std::vector<LeakPart>
      parts;  // cause kGraph and kGradient: the innermost lines of the blocks, most bytes a step first
};

// A framework's cache as a whole: one series of segments, whatever line happened to need a new one.
struct CacheGrowth {
  LeakFinding segments;  // those held at the end; its line is 0
  bool growing = false;  // to the end, so that tensors are kept somewhere inside; see leaks.cc for the rule
};

// By scope: devices first.
std::vector<CacheGrowth> MeasureCaches(const Blocks& blocks, const LineTable& lines, const StepClocks& clocks,
                                       const FrameworkStacks& stacks, std::int64_t duration_ns);

// Findings by severity: class in the order above, then bytes per step, bytes, description of the line.
std::vector<LeakFinding> FindLeaks(const Blocks& blocks, const LineTable& lines, const StepClocks& clocks,
                                   const FrameworkStacks& stacks, std::int64_t duration_ns);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_LEAKS_H_
