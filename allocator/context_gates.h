// Keeps the pool's own driver calls (giving memory back, synchronising) out of contexts that are being destroyed.
//
// The pool acts in a context on behalf of any thread: thread 2, out of memory in context Y, gives back idle memory of
// context X. The program may destroy X in thread 1 at that moment, and rightly so, for it has nothing under way there:
//
//   thread 1                        thread 2
//   Close(X); wait until Quiet(X)   Enter(X) -> false: X is left alone
//   the real cuCtxDestroy(X)
//
// Without this, thread 2 could free an address that the driver has just handed out to somebody else.
#ifndef CUHEAP_ALLOCATOR_CONTEXT_GATES_H_
#define CUHEAP_ALLOCATOR_CONTEXT_GATES_H_

#include <cassert>
#include <unordered_map>

#include "allocator/types.h"

namespace cuheap {

// Threads: none of its own; the pool's lock guards it.
class ContextGates {
 public:
  // Before a driver call that touches the context. False if it is closed; otherwise Leave must follow.
  bool Enter(ContextId context) {
    Gate& gate = gates_[context];
    if (gate.closed > 0) return false;
    ++gate.inside;
    return true;
  }
  void Leave(ContextId context) {
    const auto found = gates_.find(context);
    assert(found != gates_.end() && found->second.inside > 0);
    --found->second.inside;
    Tidy(found);
  }

  // Closings nest: several threads may release a primary context at once. Opening one that is not closed does nothing.
  void Close(ContextId context) { ++gates_[context].closed; }
  void Open(ContextId context) {
    const auto found = gates_.find(context);
    if (found == gates_.end() || found->second.closed == 0) return;
    --found->second.closed;
    Tidy(found);
  }

  bool Closed(ContextId context) const {
    const auto found = gates_.find(context);
    return found != gates_.end() && found->second.closed > 0;
  }
  // Nobody is inside.
  bool Quiet(ContextId context) const {
    const auto found = gates_.find(context);
    return found == gates_.end() || found->second.inside == 0;
  }

 private:
  struct Gate {
    int inside = 0;
    int closed = 0;
  };
  using Gates = std::unordered_map<ContextId, Gate>;  // only those that are closed or entered
  void Tidy(Gates::iterator gate) {
    if (gate->second.inside == 0 && gate->second.closed == 0) gates_.erase(gate);
  }
  Gates gates_;
};

}  // namespace cuheap

#endif  // CUHEAP_ALLOCATOR_CONTEXT_GATES_H_
