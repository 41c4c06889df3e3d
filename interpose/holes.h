// Look-ups that we could not stand in front of, kept until a hook may report them: dlsym must neither lock nor write.
#ifndef CUHEAP_INTERPOSE_HOLES_H_
#define CUHEAP_INTERPOSE_HOLES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "interpose/hook_list.h"

namespace cuheap {

class Holes {
 public:
  constexpr Holes() = default;
  // A hooked name was answered with an address that is not the driver's. Any thread, any time.
  void Add(HookId id, const void* address) {
    addresses_[Index(id)].store(reinterpret_cast<std::uintptr_t>(address), std::memory_order_relaxed);
    pending_.store(true, std::memory_order_release);
  }
  bool pending() const { return pending_.load(std::memory_order_relaxed); }
  // Calls report(name, address) for each new one.
  template <class Report>
  void Drain(Report&& report) {
    if (!pending_.load(std::memory_order_relaxed) || !pending_.exchange(false, std::memory_order_acquire)) return;
    for (std::size_t i = 0; i < kHookCount; ++i) {
      const std::uintptr_t address = addresses_[i].exchange(0, std::memory_order_relaxed);
      if (address != 0) report(kHooks[i].name, address);
    }
  }

 private:
  std::atomic<bool> pending_{false};
  std::atomic<std::uintptr_t> addresses_[kHookCount] = {};
};

extern Holes holes;

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_HOLES_H_
