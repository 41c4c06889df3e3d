#include "allocator/sync_clock.h"

#include <algorithm>

namespace cuheap {

void SyncClock::Register(ContextId context) {
  if (context != 0) contexts_.try_emplace(context, State{last_, 0});
}

void SyncClock::Forget(ContextId context) { contexts_.erase(context); }

SyncTicket SyncClock::Begin(ContextId context) {
  Register(context);
  return ++last_;
}

bool SyncClock::End(ContextId context, SyncTicket ticket, bool success) {
  const auto found = contexts_.find(context);
  if (!success || found == contexts_.end()) return false;
  State& state = found->second;
  if (ticket <= state.born || ticket > last_ || ticket <= state.completed) return false;
  state.completed = ticket;
  return true;
}

SyncTicket SyncClock::Proven(ContextId context) const {
  const auto found = contexts_.find(context);
  if (found == contexts_.end()) return 0;
  SyncTicket proven = found->second.completed;
  if (peers_) {
    for (const auto& [id, state] : contexts_) proven = std::min(proven, state.completed);
  }
  return proven;
}

std::vector<ContextId> SyncClock::Contexts() const {
  std::vector<ContextId> contexts;
  contexts.reserve(contexts_.size());
  for (const auto& [id, state] : contexts_) contexts.push_back(id);
  std::sort(contexts.begin(), contexts.end());
  return contexts;
}

}  // namespace cuheap
