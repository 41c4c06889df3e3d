// Reads this process's memory through the kernel, where it may go away at any moment: what cannot be read is refused
// instead of ending the process.
#ifndef CUHEAP_INTERPOSE_UNSEEN_OWN_MEMORY_READER_H_
#define CUHEAP_INTERPOSE_UNSEEN_OWN_MEMORY_READER_H_

#include <cstddef>
#include <cstdint>

namespace cuheap::unseen {

class OwnMemoryReader {
 public:
  OwnMemoryReader() = default;
  ~OwnMemoryReader();
  OwnMemoryReader(const OwnMemoryReader&) = delete;
  OwnMemoryReader& operator=(const OwnMemoryReader&) = delete;

  // How many of the bytes were copied: all, or those before the first page that cannot be read, or 0. By
  // process_vm_readv, or where a sandbox refuses that, by /proc/self/mem. No allocation, no lock; errno may change.
  std::size_t Read(std::uint64_t address, void* out, std::size_t bytes);

  // Which of `count` pages from `address` on (a multiple of 4096) may have been written since they were mapped: the
  // others hold what their file has, or nothing. All of them, where the kernel does not tell (/proc/self/pagemap).
  void FindWritten(std::uint64_t address, bool* written, std::size_t count);

  template <class T>
  bool ReadOne(std::uint64_t address, T& out) {
    return Read(address, &out, sizeof(T)) == sizeof(T);
  }

 private:
  int file_ = -1;      // /proc/self/mem once process_vm_readv was refused
  int page_map_ = -1;  // /proc/self/pagemap; -2: not there
  bool by_file_ = false;
};

}  // namespace cuheap::unseen

#endif  // CUHEAP_INTERPOSE_UNSEEN_OWN_MEMORY_READER_H_
