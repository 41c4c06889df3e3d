// Which stream captures are open in the process. While one is, nothing is served from the pool: an address baked into a
// graph must not be recycled, and the driver calls of a miss could invalidate the capture.
// Source: CUDA Driver API, Stream Management, cuStreamBeginCapture, cuThreadExchangeStreamCaptureMode.
#ifndef CUHEAP_INTERPOSE_CAPTURE_WATCH_H_
#define CUHEAP_INTERPOSE_CAPTURE_WATCH_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace cuheap {

class CaptureWatch {
 public:
  // The stream's handle as the program gave it, and the calling thread where the handle means one stream a thread.
  struct Key {
    std::uint64_t stream = 0;
    std::uint64_t thread = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };

  // ignore: for tests only, to show what the rule prevents.
  explicit CaptureWatch(bool ignore = false) : ignore_(ignore) {}

  void Begun(Key key) {
    if (ignore_) return;
    const std::lock_guard lock(mutex_);
    open_.push_back(key);
    count_.store(open_.size(), std::memory_order_release);
    ever_.store(true, std::memory_order_relaxed);
  }
  // The capture of the stream is over, whatever became of it. Unknown streams are ignored.
  void Ended(Key key) {
    const std::lock_guard lock(mutex_);
    const auto found = std::find(open_.begin(), open_.end(), key);
    if (found != open_.end()) open_.erase(found);
    count_.store(open_.size(), std::memory_order_release);
  }
  bool AnyOpen() const { return count_.load(std::memory_order_acquire) != 0; }
  bool Ever() const { return ever_.load(std::memory_order_relaxed); }

 private:
  const bool ignore_;
  std::atomic<std::size_t> count_{0};
  std::atomic<bool> ever_{false};
  std::mutex mutex_;
  std::vector<Key> open_;
};

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_CAPTURE_WATCH_H_
