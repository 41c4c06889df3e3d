// The tickets of Note [When a freed block may be used again] in allocator/sync_pool.h: what a completed synchronisation
// proves about blocks freed before it began.
#ifndef CUHEAP_ALLOCATOR_SYNC_CLOCK_H_
#define CUHEAP_ALLOCATOR_SYNC_CLOCK_H_

#include <unordered_map>
#include <vector>

#include "allocator/types.h"

namespace cuheap {

// One counter for all contexts. A free takes Stamp(), the last ticket drawn; a ticket drawn later is larger. So a block
// is proven unused once a synchronisation with a larger ticket than its stamp has completed: stamp < Proven(context).
//
// Threads: none of its own; the pool's lock guards it.
class SyncClock {
 public:
  // The context exists from now on. Nothing happens if it is known, or none (0).
  void Register(ContextId context);
  // The context is gone. The same handle may come again later as another context; tickets drawn for the old one then
  // prove nothing about the new one.
  void Forget(ContextId context);

  // Draws the ticket of a synchronisation of `context` that is about to begin.
  SyncTicket Begin(ContextId context);
  // The synchronisation is over. True if Proven() may now answer more, for any context.
  bool End(ContextId context, SyncTicket ticket, bool success);

  // What a block freed now is stamped with.
  SyncTicket Stamp() const { return last_; }
  // Blocks of the context with a smaller stamp are proven unused. 0 for an unknown context.
  SyncTicket Proven(ContextId context) const;

  // From now on every known context must have synchronised, not only the block's own.
  void PeersEnabled() { peers_ = true; }
  bool peers() const { return peers_; }
  std::vector<ContextId> Contexts() const;

 private:
  struct State {
    SyncTicket born = 0;       // tickets up to this one belong to an earlier context of the same handle
    SyncTicket completed = 0;  // the largest ticket whose synchronisation has completed
  };

  SyncTicket last_ = 0;
  bool peers_ = false;
  std::unordered_map<ContextId, State> contexts_;
};

}  // namespace cuheap

#endif  // CUHEAP_ALLOCATOR_SYNC_CLOCK_H_
