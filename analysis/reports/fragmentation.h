// Why memory that a pool holds from the driver (ours, or PyTorch's cache) is not used: each byte has one of four
// causes.
//
// Note [Four causes]
// Of what is held, the program asked for a part. Every other byte is, in this order,
//   rounding        inside a live block, beyond what was asked for;
//   whole segments  in a segment without a live block. It can go back to the driver; that it has not is the pool's
//                   decision, or nobody's: no fragmentation;
//   another part    beside live blocks, where this request may not be served from: PyTorch's small segments and large
//                   requests (or the reverse), segments of another stream, our slabs of one size class;
//   beside blocks   beside live blocks, in pieces that are too small: fragmentation in the narrow sense.
// With a request (at a refusal, or when the pool grew), "may not" and "too small" are meant for it. An idle piece that
// by its size and sort would have done, and was not taken, counts as another part: it belongs to another stream or
// memory pool, which calls do not tell. Without a request (at the end) the question is asked for a large one in the
// stream that holds most.
//
// Note [Whose]
// Bytes of "rounding" are the line's that made the block. Idle bytes beside blocks are charged once for each segment:
// to the line whose block there is freed last, since what holds a segment longest is what must move. Whole segments: to
// the line whose block was freed in it last.
#ifndef CUHEAP_ANALYSIS_REPORTS_FRAGMENTATION_H_
#define CUHEAP_ANALYSIS_REPORTS_FRAGMENTATION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "analysis/reports/pool_map.h"
#include "analysis/reports/blocks.h"
#include "analysis/reports/framework_cache.h"
#include "analysis/reports/lines.h"
#include "analysis/snapshot.h"

namespace cuheap::analysis {

enum class IdleCause : std::uint8_t { kRounding, kWholeSegments, kOtherPart, kBesideBlocks };
inline constexpr std::size_t kIdleCauses = 4;

struct CauseLine {
  std::uint32_t line = 0;  // index into the LineTable
  std::uint64_t bytes = 0;
};

struct CauseShare {
  std::uint64_t bytes = 0;
  std::uint64_t segments = 0;    // in which it lies
  std::vector<CauseLine> lines;  // most bytes first; they add up to bytes
};

enum class FragmentationMoment : std::uint8_t {
  kRefusal,  // the first time that the device had no memory for the program
  kGrowth,   // just before the pool grew to the most that it held
  kLast,     // PyTorch's cache: the last tensor had been handed out
  kEnd,      // of the record
};

// One segment at that moment.
struct SegmentIdle {
  std::uint32_t line = 0;                          // whose the idle bytes are, see Note [Whose]
  std::array<std::uint64_t, kIdleCauses> bytes{};  // by cause
};

// What a large block once filled and smaller blocks now keep: segments that were cut up.
struct CutUp {
  std::uint64_t bytes = 0;  // idle beside blocks in such segments
  std::uint64_t segments = 0;
  std::uint64_t block = 0;          // the largest of the large blocks
  std::uint32_t line = 0;           // that made it
  std::uint64_t largest_piece = 0;  // of the blocks that lie there now
};

struct FragmentationState {
  FragmentationMoment moment = FragmentationMoment::kEnd;
  std::int64_t time_ns = 0;
  std::uint64_t request = 0;  // that was refused, or for which the pool grew; 0: none
  std::uint64_t reserved = 0, requested = 0;
  std::array<CauseShare, kIdleCauses> causes;  // reserved = requested + the sum of their bytes
  std::uint64_t largest_idle = 0;              // the largest idle piece
  std::uint64_t in_pages = 0;  // of kBesideBlocks: whole pages of 20 MiB, which expandable segments could give back
  CutUp cut_up;
  PoolMap map;
  std::vector<SegmentIdle> segments;  // as map.segments
  const CauseShare& of(IdleCause cause) const { return causes[static_cast<std::size_t>(cause)]; }
  std::uint64_t unused() const { return reserved - requested; }
  IdleCause worst() const;  // with most bytes
};

struct Fragmentation {
  MapOwner owner = MapOwner::kPool;
  std::uint32_t device = 0;
  std::uint64_t tensor_peak = 0;           // PyTorch's: the most that was in tensors
  std::vector<FragmentationState> states;  // in order of FragmentationMoment; never empty
  // What a reader wants to see first: the refusal, else what the program worked with to the end.
  const FragmentationState& main() const;
  const FragmentationState* growth() const;  // null: not known
  // Worth a word: at one of these moments a twentieth of what was held, and 1 MiB, had no use.
  bool matters() const;
};

// PyTorch's caches by device, if their tensors were seen, then our pools by device.
std::vector<Fragmentation> FindFragmentation(const Snapshot& snapshot, const Blocks& blocks, const LineTable& lines,
                                             const FrameworkCaches& history, const std::vector<FrameworkCache>& caches);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_FRAGMENTATION_H_
