// Per thread: are we inside a hook? The driver calls exported names of its own, and loads libraries that do; what comes
// from below a hook is passed through.
//
// Note [Calls that come in between]
// A signal handler may call while its thread is in a hook. If that was in the driver, in a call that the program made
// (a wait, most likely: Ctrl-C, a time limit), nothing of ours is held, and the handler's call is as good as any other:
// it is looked at like any other, or else it would free blocks of the pool behind the pool's back. The handler may also
// jump out for good, or the thread be cancelled there; the thread is then left as being in the driver, which changes
// nothing for the calls that follow. In our own code locks may be held, so calls in between go to the driver, but for
// frees: the block may be the pool's, so they wait until the hook ends (entry_points.cc).
#ifndef CUHEAP_INTERPOSE_THREAD_GUARD_H_
#define CUHEAP_INTERPOSE_THREAD_GUARD_H_

#include <utility>

namespace cuheap {

class ThreadGuard {
 public:
  ThreadGuard() : ThreadGuard([] { return true; }) {}
  // from_driver(): was this call made by the driver itself? Asked only in a call of the driver's.
  template <class FromDriver>
  explicit ThreadGuard(const FromDriver& from_driver)
      : before_(where_), entered_(where_ == Where::kProgram || (where_ == Where::kDriver && !from_driver())) {
    if (entered_) where_ = Where::kOurs;
  }
  ~ThreadGuard() {
    if (entered_) where_ = before_;
  }
  ThreadGuard(const ThreadGuard&) = delete;
  ThreadGuard& operator=(const ThreadGuard&) = delete;
  // False: this thread was inside a hook already.
  bool entered() const { return entered_; }
  // False if this hook itself came in between.
  bool outermost() const { return entered_ && before_ == Where::kProgram; }

 private:
  friend class DriverCall;
  enum class Where : unsigned char { kProgram, kOurs, kDriver };
  // Initial-exec: preloaded libraries get static TLS at start, and dynamic TLS may call malloc on first use.
  [[gnu::tls_model("initial-exec")]] static inline constinit thread_local Where where_ = Where::kProgram;
  // Whether the last call of the driver's did not return but was unwound.
  [[gnu::tls_model("initial-exec")]] static inline constinit thread_local bool unwound_ = false;
  const Where before_;
  const bool entered_;
};

// While it lives, the thread is in a call of the driver's that the program made, and no lock of ours is held.
class DriverCall {
 public:
  DriverCall() : before_(ThreadGuard::where_) { ThreadGuard::where_ = ThreadGuard::Where::kDriver; }
  ~DriverCall() {
    ThreadGuard::where_ = before_;
    ThreadGuard::unwound_ = !returned_;
  }
  DriverCall(const DriverCall&) = delete;
  DriverCall& operator=(const DriverCall&) = delete;
  void Returned() { returned_ = true; }
  // An exception that is on its way left a call of the driver's: it is the program's (a callback threw it), not ours.
  static bool TakeUnwound() { return std::exchange(ThreadGuard::unwound_, false); }

 private:
  const ThreadGuard::Where before_;
  bool returned_ = false;
};

// The driver's function, as a hook calls it for the program.
template <class Function>
class ProgramsCall;
template <class Result, class... Args>
class ProgramsCall<Result (*)(Args...)> {
 public:
  explicit ProgramsCall(Result (*function)(Args...)) : function_(function) {}
  Result operator()(Args... args) const {
    DriverCall call;
    const Result result = function_(args...);
    call.Returned();
    return result;
  }

 private:
  Result (*function_)(Args...);
};

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_THREAD_GUARD_H_
