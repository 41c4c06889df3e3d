// Whether memory can be read, asked of the kernel without a signal handler.
#ifndef CUHEAP_INTERPOSE_STACKS_READABLE_PAGE_H_
#define CUHEAP_INTERPOSE_STACKS_READABLE_PAGE_H_

#include <cstdint>

namespace cuheap::stacks {

inline constexpr std::uint64_t kPage = 4096;

// The page of the address can be read. One system call, which changes nothing; may be called in signal handlers. errno
// is kept. Page 0 never can.
bool PageIsReadable(std::uint64_t address);

}  // namespace cuheap::stacks

#endif  // CUHEAP_INTERPOSE_STACKS_READABLE_PAGE_H_
