// Whether a line that frees most of its blocks holds more and more all the same.
#ifndef CUHEAP_ANALYSIS_REPORTS_LIVE_TREND_H_
#define CUHEAP_ANALYSIS_REPORTS_LIVE_TREND_H_

#include <vector>

#include "analysis/reports/blocks.h"

namespace cuheap::analysis {

// Note [Bounded caches]
// A cache that replaces entries in no particular order always ends with some blocks that were never freed, most of them
// young: by the time of their allocation alone they look like a leak that is still going on. What tells it from a leak
// is how much is live at once. The last half of what the line does (its allocations and frees, in order) is cut into
// windows. The least that was live in a window leaves out what comes and goes; a leak makes it rise from window to
// window, a full cache leaves it where it is. It has to rise in blocks and in bytes: entries of changing sizes alone
// make no trend. A few leaked blocks make none either, so there is a second condition: what is held is no older than
// what is freed becomes, or so many blocks are new that they would have made a trend.
//
// all: every block of the line (or of its stacks) by any order; kept: those among them that count as not freed. False
// as well if there is too little to see, or if the line frees next to nothing.
bool IsBounded(const std::vector<const Block*>& all, const std::vector<const Block*>& kept);

// A list that is filled and emptied again and again (the outputs of an epoch) holds some blocks at the end as well: no
// growth, if as many blocks and bytes of `all` were live at once before the first of `kept` was allocated.
bool HeldAsMuchBefore(const std::vector<const Block*>& all, const std::vector<const Block*>& kept);

// `blocks` are the newest of `all` that a line made, and its older ones were freed. Both by time of allocation.
bool AreNewest(const std::vector<const Block*>& all, const std::vector<const Block*>& blocks);

// Two or three among the newest tenth of a line that frees the others: those of the last step.
bool AreFewOfTheLast(const std::vector<const Block*>& all, const std::vector<const Block*>& blocks);

// Bytes of `unknown`, blocks from before the window whose lines are not known, that were freed since the first of `kept`
// was made: they may be the ones which those replaced (an optimizer's state, made anew in each step).
std::uint64_t FreedUnknown(const std::vector<const Block*>& unknown, const std::vector<const Block*>& kept);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_LIVE_TREND_H_
