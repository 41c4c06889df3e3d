// Lines that hold a block until a new one has replaced it, and what that costs at the peak.
//
// Note [Held until replaced]
// A cache of one entry, `batch = next(loader)`, `model = load()`: the new blocks are made while the old ones are still
// held, so that for a while both are there. Nothing grows, and yet the peak may be twice what is needed. Told for each
// stack whose blocks come and go like that: whenever some of them are freed, it is the oldest ones, the newer ones that
// stay are about as large (half to twice), and only then further ones are made. A queue of several entries is none, and
// neither is what is freed before the next is made.
//
// The cost is reckoned, not guessed: the peak is looked for once more with every old block taken away from the moment
// its replacement began. What a line saves by itself and what all of them save together differ, since both can move the
// peak to another moment. A block that is needed to make its successor (x = f(x)) cannot go before: there the saving is
// what working in place would bring.
#ifndef CUHEAP_ANALYSIS_REPORTS_REPLACED_H_
#define CUHEAP_ANALYSIS_REPORTS_REPLACED_H_

#include <cstdint>
#include <vector>

#include "analysis/reports/blocks.h"
#include "analysis/reports/lines.h"
#include "analysis/reports/totals.h"

namespace cuheap::analysis {

struct Replacement {
  std::uint32_t line = 0, caller = 0;           // caller: the line whose use of `line` this is; 0: none, or several
  std::uint64_t times = 0;                      // how often old blocks were freed after new ones were there
  std::uint64_t old_bytes = 0, old_blocks = 0;  // at the peak: those that were replaced and still held
  std::uint64_t saving_bytes = 0;  // how much lower the peak were, had each been freed before its replacement began
};

struct Replaced {
  Scope scope;
  std::uint64_t peak_bytes = 0;    // as the events tell it
  std::uint64_t saving_bytes = 0;  // all lines together
  std::vector<Replacement> lines;  // most saving first, then old bytes, then by name; only those that save something
};

// Scopes in which something is replaced at the peak, devices first.
std::vector<Replaced> FindReplaced(const Blocks& blocks, const LineTable& lines);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_REPLACED_H_
