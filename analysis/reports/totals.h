// How much memory was held, when it was most, and by which lines: device by device, and host memory pinned for CUDA.
#ifndef CUHEAP_ANALYSIS_REPORTS_TOTALS_H_
#define CUHEAP_ANALYSIS_REPORTS_TOTALS_H_

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/reports/blocks.h"
#include "analysis/reports/lines.h"
#include "analysis/snapshot.h"

namespace cuheap::analysis {

// One device's memory, or the host's; or the tensors that a framework handed out of its cache on a device, which lie in
// that device's memory.
struct Scope {
  bool host = false;
  std::uint32_t device = 0;
  bool tensors = false;
  friend auto operator<=>(const Scope&, const Scope&) = default;
};
bool InScope(const Scope& scope, const Block& block);

struct LineBytes {
  std::uint32_t line = 0;  // index into the LineTable
  std::uint64_t bytes = 0, blocks = 0;
};

struct LineShare : LineBytes {
  std::vector<LineBytes> callers;  // if more than one line calls this one (a wrapper): who, most bytes first
};

// A share of the peak that is no line's: a library, a lifetime.
struct PartBytes {
  std::string_view kind;  // a word of the JSON format; lives for ever
  std::string name;
  std::uint64_t bytes = 0, blocks = 0;
};

struct CurvePoint {
  std::int64_t time_ns = 0;
  std::uint64_t bytes = 0;  // the most that was live from this point's time to the next point's
};

// Whether what is said of the peak is all of it.
enum class PeakBasis : std::uint8_t {
  kExact,          // the replay of the events reaches the recorder's own peak: composition complete
  kPartial,        // the events of part of what was live then are lost: composition lacks bytes - composed_bytes
  kOutsideWindow,  // the peak lies before the events that were kept: bytes and time are exact, no composition
};

struct ScopeTotals {
  Scope scope;
  std::string name;                               // of the device
  std::uint64_t capacity_bytes = 0;               // of the device, 0: not known
  std::uint64_t live_bytes = 0, live_blocks = 0;  // at the end, as requested
  std::uint64_t live_reserved_bytes = 0;          // what those blocks occupy
  std::uint64_t peak_bytes = 0, peak_blocks = 0;
  std::int64_t peak_ns = 0;
  // Position (see blocks.h) of the last event that led to it; of no meaning if basis is kOutsideWindow.
  std::uint64_t peak_at = 0;
  PeakBasis basis = PeakBasis::kExact;
  std::uint64_t composed_bytes = 0;     // what peak_by_line adds up to
  std::vector<LineShare> peak_by_line;  // most bytes first, then by name of the line
  std::vector<LineShare> live_by_line;
  std::vector<PartBytes> peak_by_library;   // most bytes first
  std::vector<PartBytes> peak_by_lifetime;  // longest first
  // Of the host, at the peak: large blocks of exactly a power of two, as caching allocators round pinned memory up to
  // (PyTorch's does). What was asked of those is not seen, so this is a hint.
  LineBytes powers_of_two;
  // Of a device whose tensors have a scope of their own: the cache's segments, which are in no line's share.
  LineBytes peak_cache, live_cache;
  std::vector<CurvePoint> curve;                                  // at most kCurvePoints, see ActiveSpan
  std::uint64_t allocations = 0, frees = 0, allocated_bytes = 0;  // in the window
};
inline constexpr std::size_t kCurvePoints = 240;

// Is shown the blocks that were live at a scope's peak, where they are known.
using PeakWitness = std::function<void(const std::vector<const Block*>& at_peak, ScopeTotals& totals)>;

// One entry for every device the process used and one for the host if it pinned memory; devices first, by ordinal.
std::vector<ScopeTotals> MeasureTotals(const Snapshot& snapshot, const Blocks& blocks, const LineTable& lines,
                                       const PeakWitness& witness = {});

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_TOTALS_H_
