// When cuMemFree of a pool's block must wait for the device, as the native one may.
//
// Programs read host memory right after cudaFree, since the native call has waited for all that could still write it.
// Two kinds of work can: asynchronous copies to the host, host functions and graphs, which we see when submitted; and
// kernels and memory operations, also unseen ones, if any host memory is reachable by the device (pinned, registered,
// managed, or all of it on systems with pageable memory access).
// Source: CUDA Runtime API, "API synchronization behavior"; cudaFree.
#ifndef CUHEAP_INTERPOSE_FREE_BARRIER_H_
#define CUHEAP_INTERPOSE_FREE_BARRIER_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "interpose/options/option_parse.h"

namespace cuheap {

class FreeBarrier {
 public:
  explicit FreeBarrier(options::Barrier rule) : rule_(rule) {}

  // Before a call that submits work which may write host memory after it returned.
  void HostWriteSubmitted() { submitted_.fetch_add(1, std::memory_order_acq_rel); }

  // Around a context-wide synchronisation: only what was submitted before it began is proven complete by it.
  using Mark = std::uint64_t;
  Mark SynchronizationBegins() const { return submitted_.load(std::memory_order_acquire); }
  void SynchronizationCompleted(std::uint64_t context, Mark mark) {
    const std::lock_guard lock(mutex_);
    Mark& proven = proven_[context];
    proven = std::max(proven, mark);
  }
  void ContextDestroyed(std::uint64_t context) {
    const std::lock_guard lock(mutex_);
    proven_.erase(context);
  }

  // Host memory that the device can write came into being, or went.
  void HostMemoryAdded() { host_memory_.fetch_add(1, std::memory_order_relaxed); }
  void HostMemoryRemoved() { host_memory_.fetch_sub(1, std::memory_order_relaxed); }
  // The same where its end cannot be told (managed variables go with their module, or with a context): it counts for
  // good.
  void LastingHostMemoryFound() {
    if (!lasting_.exchange(true, std::memory_order_relaxed)) HostMemoryAdded();
  }
  bool HasLastingHostMemory() const { return lasting_.load(std::memory_order_relaxed); }

  // Must a free of a block of this context wait? The work's own context is not known, so any work not covered by a
  // synchronisation of this context counts.
  bool Needed(std::uint64_t context) const {
    if (rule_ != options::Barrier::kAuto) return rule_ == options::Barrier::kAlways;
    if (host_memory_.load(std::memory_order_relaxed) > 0) return true;
    const Mark submitted = submitted_.load(std::memory_order_acquire);
    if (submitted == 0) return false;
    const std::lock_guard lock(mutex_);
    const auto found = proven_.find(context);
    return found == proven_.end() || found->second < submitted;
  }
  bool never() const { return rule_ == options::Barrier::kNever; }

 private:
  const options::Barrier rule_;
  std::atomic<Mark> submitted_{0};
  std::atomic<std::int64_t> host_memory_{0};
  std::atomic<bool> lasting_{false};
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, Mark> proven_;
};

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_FREE_BARRIER_H_
