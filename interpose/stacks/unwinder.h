// Walks the calling thread's stack by cached frame rules: two loads and a table look-up a frame once warm.
//
// No lock, no allocation after the first use, no system call in the steady state; may run in a signal handler and after
// fork. The cache is shared by all threads and needs no lock: see Note [Torn entries] in unwinder.cc.
#ifndef CUHEAP_INTERPOSE_STACKS_UNWINDER_H_
#define CUHEAP_INTERPOSE_STACKS_UNWINDER_H_

#include <cstdint>

#include "interpose/stacks/registers.h"

namespace cuheap::stacks {

struct WalkResult {
  unsigned depth = 0;      // addresses written
  bool truncated = false;  // there were more frames than room
  bool failed = false;     // stopped before the outermost frame: code without call frame information, an odd stack
};

// Writes the return addresses from `start` outwards, innermost first, without those at the beginning that lie in
// [skip_begin, skip_end). start: CurrentRegisters() of a function that is still active. stack_pointers, if given, has
// room for as many: where each frame's part of the stack begins (its end is where the next one's begins).
WalkResult WalkStack(const Registers& start, std::uint64_t skip_begin, std::uint64_t skip_end, std::uint64_t* addresses,
                     unsigned max_addresses, std::uint64_t* stack_pointers = nullptr);

// Forgets all rules: an object was unloaded, its addresses may soon mean something else. Any thread, any time.
void ForgetFrameRules();

}  // namespace cuheap::stacks

#endif  // CUHEAP_INTERPOSE_STACKS_UNWINDER_H_
