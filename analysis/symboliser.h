// Turns raw frames (module, offset) into function, file and line, inlined frames included.
#ifndef CUHEAP_ANALYSIS_SYMBOLISER_H_
#define CUHEAP_ANALYSIS_SYMBOLISER_H_

#include <string>

#include "analysis/snapshot.h"

namespace cuheap::analysis {

struct SymboliseOptions {
  // Where separate debug files lie: <debug_root>/.build-id/ab/cdef.debug. Nothing is ever downloaded.
  std::string debug_root = "/usr/lib/debug";
};

// Replaces every raw native frame of the snapshot by what its module's file says: one frame, or several if functions
// were inlined there (the inner ones with Frame::inlined). Each (module, offset) is looked up once, with the return
// address minus one, so that the line is the call's.
//
// A module's file counts only if its build id is the recorded one. What cannot be had carries its reason; nothing is an
// error. Frames that already have a function stay as they are, so a second call changes nothing.
void Symbolise(Snapshot& snapshot, const SymboliseOptions& options = {});

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_SYMBOLISER_H_
