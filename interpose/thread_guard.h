// Per thread: are we inside a hook? The driver calls exported names of its own, and loads libraries that do; what comes
// from below a hook is passed through.
#ifndef CUHEAP_INTERPOSE_THREAD_GUARD_H_
#define CUHEAP_INTERPOSE_THREAD_GUARD_H_

namespace cuheap {

class ThreadGuard {
 public:
  ThreadGuard() : entered_(!inside_) { inside_ = true; }
  ~ThreadGuard() {
    if (entered_) inside_ = false;
  }
  ThreadGuard(const ThreadGuard&) = delete;
  ThreadGuard& operator=(const ThreadGuard&) = delete;
  // False: this thread was inside a hook already.
  bool entered() const { return entered_; }

 private:
  // Initial-exec: preloaded libraries get static TLS at start, and dynamic TLS may call malloc on first use.
  [[gnu::tls_model("initial-exec")]] static inline constinit thread_local bool inside_ = false;
  const bool entered_;
};

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_THREAD_GUARD_H_
