// Threads of ours in the program's process.
#ifndef CUHEAP_INTERPOSE_HELPER_THREAD_H_
#define CUHEAP_INTERPOSE_HELPER_THREAD_H_

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstddef>

namespace cuheap {

// A helper without work ends after this time: a process ends with its last thread, and if the program's main thread has
// left by pthread_exit, ours must not be the one that is left, deaf to every signal.
inline constexpr std::chrono::milliseconds kHelperIdles{300};

// A detached thread with every signal blocked (the program's are not for it). name: at most 15 characters. False: the
// system allows no thread.
inline bool StartHelperThread(const char* name, void* (*main)(void*), void* argument) {
  // Small, but with room for the process's static TLS, which glibc takes from the stack.
  constexpr std::size_t kStackBytes = std::size_t{512} << 10;
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setstacksize(&attributes, std::max<std::size_t>(kStackBytes, PTHREAD_STACK_MIN));
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const bool started = pthread_create(&thread, &attributes, main, argument) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  if (started) pthread_setname_np(thread, name);
  return started;
}

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_HELPER_THREAD_H_
