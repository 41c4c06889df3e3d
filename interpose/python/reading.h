// Two ways of loading the interpreter's words. Until a whole walk has shown that the layout is true for this process,
// every page is asked for before it is touched; from then on words are simply loaded, since a thread's own frames and
// what they hold cannot go away under it.
#ifndef CUHEAP_INTERPOSE_PYTHON_READING_H_
#define CUHEAP_INTERPOSE_PYTHON_READING_H_

#include <cstdint>

#include "interpose/stacks/readable_page.h"

namespace cuheap::python {

// An address of the lower half, not of the first page: anything else is no object.
inline bool IsPlausible(std::uint64_t address) { return address - 4096 < (std::uint64_t{1} << 47) - 8192; }

class UncheckedReader {
 public:
  static bool MayRead(std::uint64_t, std::uint64_t) { return true; }
};

class CheckedReader {
 public:
  // [address, address + bytes) can be read.
  bool MayRead(std::uint64_t address, std::uint64_t bytes) {
    if (!IsPlausible(address) || !IsPlausible(address + bytes)) return false;
    for (std::uint64_t page = address & ~(stacks::kPage - 1); page < address + bytes; page += stacks::kPage) {
      if (page == last_page_) continue;
      if (!stacks::PageIsReadable(page)) return false;
      last_page_ = page;
    }
    return true;
  }

 private:
  std::uint64_t last_page_ = 0;
};

// False: the address is no place for a T, or cannot be read. Not instrumented: objects may be on the C stack.
template <typename T, typename Reader>
[[gnu::no_sanitize_address, gnu::no_sanitize_thread]] inline bool Load(Reader& reader, std::uint64_t address,
                                                                       T& value) {
  if (!IsPlausible(address) || address % alignof(T) != 0) [[unlikely]] {
    return false;
  }
  if (!reader.MayRead(address, sizeof(T))) return false;
  value = *reinterpret_cast<const T*>(address);
  return true;
}

}  // namespace cuheap::python

#endif  // CUHEAP_INTERPOSE_PYTHON_READING_H_
