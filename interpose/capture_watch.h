// Which stream captures are open in the process, and what must be kept for the graphs that will come of them. While one
// is open, nothing is served from the pool: an address baked into a graph must not be recycled, and the driver calls of
// a miss could invalidate the capture. Source: CUDA Driver API, Stream Management, cuStreamBeginCapture,
// cuThreadExchangeStreamCaptureMode.
#ifndef CUHEAP_INTERPOSE_CAPTURE_WATCH_H_
#define CUHEAP_INTERPOSE_CAPTURE_WATCH_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
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
  // Keeps a block as long as a copy of it exists (held_blocks.h).
  using Pin = std::shared_ptr<void>;
  // A capture that is over: the graph it was begun into, if it was one of the program's, and what was pinned meanwhile.
  struct Over {
    std::uint64_t graph = 0;
    std::vector<Pin> pins;
  };

  // ignore: for tests only, to show what the rule prevents.
  explicit CaptureWatch(bool ignore = false) : ignore_(ignore) {}

  void Begun(Key key, std::uint64_t graph = 0) {
    if (ignore_) return;
    const std::lock_guard lock(mutex_);
    open_.push_back({key, {graph, {}}});
    count_.store(open_.size(), std::memory_order_release);
    ever_.store(true, std::memory_order_relaxed);
  }
  // The capture of the stream is over, whatever became of it. Unknown streams are ignored.
  Over Ended(Key key) {
    const std::lock_guard lock(mutex_);
    Over over;
    const auto found = std::find_if(open_.begin(), open_.end(), [&](const Open& open) { return open.key == key; });
    if (found != open_.end()) {
      over = std::move(found->over);
      open_.erase(found);
    }
    count_.store(open_.size(), std::memory_order_release);
    return over;
  }
  // A block was freed: whatever is captured now may use it when it is replayed.
  void Hold(const Pin& pin) {
    const std::lock_guard lock(mutex_);
    for (Open& open : open_) open.over.pins.push_back(pin);
  }
  bool AnyOpen() const { return count_.load(std::memory_order_acquire) != 0; }
  bool Ever() const { return ever_.load(std::memory_order_relaxed); }

 private:
  struct Open {
    Key key;
    Over over;
  };
  const bool ignore_;
  std::atomic<std::size_t> count_{0};
  std::atomic<bool> ever_{false};
  std::mutex mutex_;
  std::vector<Open> open_;
};

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_CAPTURE_WATCH_H_
