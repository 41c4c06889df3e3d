#include "interpose/stacks/readable_page.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace cuheap::stacks {

// rt_sigprocmask with an impossible `how` reads 8 bytes from the address and then always fails: with EFAULT for
// unreadable memory, with EINVAL otherwise.
bool PageIsReadable(std::uint64_t address) {
  const int saved_errno = errno;
  constexpr int kImpossibleHow = ~0;
  const std::uint64_t page = address & ~(kPage - 1);
  // A null set is no set: page 0 is not asked for.
  const bool readable =
      page != 0 && syscall(SYS_rt_sigprocmask, kImpossibleHow, page, nullptr, 8) != 0 && errno == EINVAL;
  errno = saved_errno;
  return readable;
}

}  // namespace cuheap::stacks
