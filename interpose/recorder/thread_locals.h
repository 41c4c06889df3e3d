// The recorder's thread-local words and the pointer to its state; for the sources of this folder only.
#ifndef CUHEAP_INTERPOSE_RECORDER_THREAD_LOCALS_H_
#define CUHEAP_INTERPOSE_RECORDER_THREAD_LOCALS_H_

#include <atomic>
#include <cstdint>

#include "interpose/recorder/state.h"

namespace cuheap::recorder {

struct ThreadLocals {
  Recorder* owner = nullptr;     // whose `state` is; another recorder (after a fork) makes its own
  ThreadState* state = nullptr;  // of `owner`; never nullptr once owner is set
  std::uint32_t thread = 0;      // index of the ThreadRecord; outlives `state`
  bool recording = false;
};
extern constinit thread_local ThreadLocals t_locals;
extern constinit std::atomic<Recorder*> g_recorder;

// The key whose destructor notices the end of threads. False: no key to be had.
bool MakeThreadKey();

}  // namespace cuheap::recorder

#endif  // CUHEAP_INTERPOSE_RECORDER_THREAD_LOCALS_H_
