// Making and ending contexts; the entry points are in contexts.cc and primary_contexts.cc.
#pragma once

#include <memory>

#include "tools/simcuda/driver/context.h"

namespace simcuda {

// Gives the context its default streams and charges the device.
// Errors: OUT_OF_MEMORY.
CUresult ActivateContext(const std::shared_ptr<Context>& context);

// Waits for the context's work, then frees its memory, streams, events and modules, and makes it unusable.
// why: for the log's notes.
void DeactivateContext(Context& context, const char* why);

// A new stream of the context, in its list and (but for the default streams) in the table of handles.
std::shared_ptr<Stream> MakeStream(Context& context, unsigned flags, int priority);

// What a completed synchronisation of the context leads to: pools give back unused memory over their thresholds.
// Returns: the context's sticky error, which the work may have caused.
CUresult AfterSynchronization(Context& context);

// Whether two different devices can use each other's memory.
bool PeersPossible(const Device& a, const Device& b);

// The stack of current contexts of this thread. Null entries do not occur.
std::vector<std::shared_ptr<Context>>& ContextStack();

}  // namespace simcuda
