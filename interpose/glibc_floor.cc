// Keeps the preload library loadable where the C library is older than here: a process in an older container would
// ignore the library with one line on stderr. Symbols that glibc moved to libc.so or added lately are defined here,
// hidden, so that every reference in this library, also from the archives linked into it, is answered by the old
// version.
//
// Not part of sanitized builds, whose runtimes intercept some of these.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#if defined(__x86_64__)
#define OLD_VERSION "GLIBC_2.2.5"
#define SETNAME_VERSION "GLIBC_2.12"
#define DLINFO_VERSION "GLIBC_2.3.3"
#elif defined(__aarch64__)
#define OLD_VERSION "GLIBC_2.17"
#define SETNAME_VERSION "GLIBC_2.17"
#define DLINFO_VERSION "GLIBC_2.17"
#endif

// Refers to the old version of `name` as old_<name>.
#define OLD(name) OLD_OF(name, OLD_VERSION)
#define OLD_OF(name, version)           \
  extern "C" decltype(name) old_##name; \
  asm(".symver old_" #name ", " #name "@" version)

OLD(dladdr);
OLD(dlerror);
OLD_OF(dlinfo, DLINFO_VERSION);
OLD(dlopen);
OLD(pthread_attr_setstacksize);
OLD(pthread_create);
OLD(pthread_getspecific);
OLD(pthread_key_create);
OLD(pthread_key_delete);
OLD(pthread_once);
OLD(pthread_setspecific);
OLD(pthread_sigmask);
OLD_OF(pthread_setname_np, SETNAME_VERSION);

#pragma GCC visibility push(hidden)
#pragma GCC diagnostic ignored "-Wpedantic"

extern "C" {

// libstdc++ reads it to leave out atomic operations in a process with one thread; 0 never leaves any out.
char __libc_single_threaded = 0;

int dladdr(const void* address, Dl_info* info) noexcept { return old_dladdr(address, info); }
char* dlerror() noexcept { return old_dlerror(); }
int dlinfo(void* handle, int request, void* out) noexcept { return old_dlinfo(handle, request, out); }
void* dlopen(const char* file, int mode) noexcept { return old_dlopen(file, mode); }

int pthread_attr_setstacksize(pthread_attr_t* attributes, std::size_t bytes) noexcept {
  return old_pthread_attr_setstacksize(attributes, bytes);
}
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                   void* argument) noexcept {
  return old_pthread_create(thread, attributes, start, argument);
}
void* pthread_getspecific(pthread_key_t key) noexcept { return old_pthread_getspecific(key); }
int pthread_setspecific(pthread_key_t key, const void* value) noexcept { return old_pthread_setspecific(key, value); }
int pthread_key_create(pthread_key_t* key, void (*destroy)(void*)) noexcept {
  return old_pthread_key_create(key, destroy);
}
int __pthread_key_create(pthread_key_t* key, void (*destroy)(void*)) noexcept {
  return old_pthread_key_create(key, destroy);
}
int pthread_key_delete(pthread_key_t key) noexcept { return old_pthread_key_delete(key); }
int pthread_once(pthread_once_t* once, void (*function)()) { return old_pthread_once(once, function); }
int pthread_setname_np(pthread_t thread, const char* name) noexcept { return old_pthread_setname_np(thread, name); }
int pthread_sigmask(int how, const sigset_t* set, sigset_t* before) noexcept {
  return old_pthread_sigmask(how, set, before);
}

// glibc 2.30. The clock is turned into the condition's own; a jump of the real-time clock meanwhile shifts the
// deadline, and callers wait in a loop.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  timespec there;
  timespec here;
  clock_gettime(clock, &there);
  clock_gettime(CLOCK_REALTIME, &here);
  constexpr long kSecond = 1'000'000'000;
  timespec deadline{here.tv_sec + (until->tv_sec - there.tv_sec), here.tv_nsec + (until->tv_nsec - there.tv_nsec)};
  while (deadline.tv_nsec < 0) deadline.tv_nsec += kSecond, --deadline.tv_sec;
  while (deadline.tv_nsec >= kSecond) deadline.tv_nsec -= kSecond, ++deadline.tv_sec;
  return pthread_cond_timedwait(condition, mutex, &deadline);
}

// glibc 2.33 made functions of what were macros over __fxstat.
int fstat(int file, struct stat* status) noexcept { return static_cast<int>(syscall(SYS_fstat, file, status)); }

// glibc 2.36; std::random_device of the static libstdc++ refers to it.
std::uint32_t arc4random() noexcept {
  std::uint32_t value = 0;
  if (getrandom(&value, sizeof(value), 0) != sizeof(value)) std::abort();
  return value;
}

// glibc 2.35: asked for at run time, and told as "not found" where there is none, after which the unwinder walks the
// list of objects.
struct dl_find_object;
int _dl_find_object(void* address, dl_find_object* result) noexcept {
  using Function = int (*)(void*, dl_find_object*);
  static constinit std::atomic<Function> real{nullptr};
  static constinit std::atomic<bool> asked{false};
  Function function = real.load(std::memory_order_acquire);
  if (function == nullptr && !asked.exchange(true, std::memory_order_relaxed)) {
    function = reinterpret_cast<Function>(dlvsym(RTLD_DEFAULT, "_dl_find_object", "GLIBC_2.35"));
    real.store(function, std::memory_order_release);
  }
  return function != nullptr ? function(address, result) : -1;
}

}  // extern "C"

#pragma GCC visibility pop
