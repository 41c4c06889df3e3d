// What the hooks must remember of contexts: primary ones by device, uses of attached ones, and green ones.
#ifndef CUHEAP_INTERPOSE_CONTEXT_BOOK_H_
#define CUHEAP_INTERPOSE_CONTEXT_BOOK_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

namespace cuheap {

class ContextBook {
 public:
  using Context = std::uint64_t;  // a CUcontext handle; 0 is none

  void PrimaryRetained(int device, Context context) {
    const std::lock_guard lock(mutex_);
    primary_[device] = context;
  }
  // The device's primary context as last retained; 0 if it never was.
  Context Primary(int device) const {
    const std::lock_guard lock(mutex_);
    const auto found = primary_.find(device);
    return found == primary_.end() ? 0 : found->second;
  }

  // cuCtxAttach and cuCtxDetach count a context's uses beyond its creator's.
  void Attached(Context context) {
    const std::lock_guard lock(mutex_);
    ++attached_[context];
  }
  bool HasOtherUses(Context context) const {
    const std::lock_guard lock(mutex_);
    return attached_.contains(context);
  }
  void Detached(Context context) {
    const std::lock_guard lock(mutex_);
    const auto found = attached_.find(context);
    if (found != attached_.end() && --found->second == 0) attached_.erase(found);
  }

  // Remembers the context; the number of contexts that exist as far as we know.
  std::size_t Seen(Context context) {
    const std::lock_guard lock(mutex_);
    seen_.insert(context);
    return seen_.size();
  }
  void Gone(Context context) {
    const std::lock_guard lock(mutex_);
    seen_.erase(context);
    green_.erase(context);
    attached_.erase(context);
  }

  void GreenSeen(Context context) {
    const std::lock_guard lock(mutex_);
    green_.insert(context);
    any_green_.store(true, std::memory_order_release);
  }
  bool IsGreen(Context context) const {
    if (!any_green_.load(std::memory_order_acquire)) return false;
    const std::lock_guard lock(mutex_);
    return green_.contains(context);
  }

 private:
  std::atomic<bool> any_green_{false};
  mutable std::mutex mutex_;
  std::unordered_map<int, Context> primary_;
  std::unordered_map<Context, std::uint64_t> attached_;
  std::unordered_set<Context> green_;
  std::unordered_set<Context> seen_;
};

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_CONTEXT_BOOK_H_
