// In place of the C library's clocks, as libfaketime does it: times that jump to and fro by days.
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

extern "C" [[gnu::visibility("default")]] int clock_gettime(clockid_t clock, timespec* now) noexcept {
  static std::atomic<unsigned> calls = 0;
  const auto result = static_cast<int>(syscall(SYS_clock_gettime, clock, now));
  if (result == 0) now->tv_sec += static_cast<time_t>((calls.fetch_add(1) / 7 % 5) * 86'400 * 3);
  return result;
}
