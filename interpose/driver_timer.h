// Takes the time of a call of the real driver. Two reads of the clock, so only around calls that reach the driver; what
// the pool serves has none.
#ifndef CUHEAP_INTERPOSE_DRIVER_TIMER_H_
#define CUHEAP_INTERPOSE_DRIVER_TIMER_H_

#include <time.h>

#include <cstdint>

#include "interpose/recorder/recorder.h"

namespace cuheap {

// A timer inside another one of its thread takes no time of its own: a refused allocation gives idle segments back and
// tries again, and all of that is the time of the allocation.
class DriverTimer {
 public:
  explicit DriverTimer(journal::DriverCall call)
      : call_(call), outermost_(depth_++ == 0), began_(outermost_ ? Now() : 0) {}
  ~DriverTimer() {
    --depth_;
    if (!outermost_) return;
    const std::uint64_t duration_ns = Now() - began_;
    // Frees have no stack otherwise; beside 0.1 ms it costs nothing.
    recorder::DriverCalled(call_, duration_ns,
                           duration_ns >= journal::kSlowDriverCallNs ? recorder::CaptureStack().id : 0);
  }
  DriverTimer(const DriverTimer&) = delete;
  DriverTimer& operator=(const DriverTimer&) = delete;

 private:
  static std::uint64_t Now() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
  }

  [[gnu::tls_model("initial-exec")]] static constinit inline thread_local unsigned depth_ = 0;
  const journal::DriverCall call_;
  const bool outermost_;
  const std::uint64_t began_;
};

template <class Call>
auto Timed(journal::DriverCall what, Call&& call) {
  const DriverTimer timer(what);
  return call();
}

// What an allocation or a free of that kind is for the driver. Memory of others is only mapped.
inline journal::DriverCall AllocationCall(journal::AllocationKind kind) {
  if (kind >= journal::AllocationKind::kHostFirst) return journal::DriverCall::kPinHost;
  return journal::IsDeviceMemory(kind) ? journal::DriverCall::kAllocate : journal::DriverCall::kMap;
}
inline journal::DriverCall FreeCall(journal::AllocationKind kind) {
  return kind >= journal::AllocationKind::kHostFirst ? journal::DriverCall::kUnpinHost : journal::DriverCall::kFree;
}

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_DRIVER_TIMER_H_
