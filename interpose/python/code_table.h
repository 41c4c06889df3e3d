// The code objects that stacks name: each is copied into the journal when it is first seen, and has a number from then
// on. Code objects die and their memory is used again for others, so what is looked up is not the address but a
// fingerprint of the object: its address, the addresses of its file name, name and line table, and what these hold
// where they differ between objects of one program.
#ifndef CUHEAP_INTERPOSE_PYTHON_CODE_TABLE_H_
#define CUHEAP_INTERPOSE_PYTHON_CODE_TABLE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "interpose/journal/format.h"
#include "interpose/python/interpreter.h"
#include "interpose/recorder/state.h"

namespace cuheap::python {

class CodeTable {
 public:
  explicit CodeTable(recorder::Recorder* recorder) : recorder_(recorder) {}

  // The number of a code object that runs on the calling thread, or 0 if it has none yet. No lock.
  std::uint32_t Find(std::uint64_t fingerprint) const;
  // Its number, after it was copied into the journal; 0: no room, or what it holds cannot be read. Reads with care.
  std::uint32_t Add(std::uint64_t fingerprint, const Interpreter& interpreter, std::uint64_t code);

 private:
  struct Slot {
    std::atomic<std::uint64_t> fingerprint;  // 0: free
    std::atomic<std::uint32_t> number;       // written before
  };
  // Open addressing, read without a lock; a bigger one replaces it, the old one stays for those who still read it.
  struct Map {
    std::uint64_t capacity;  // a power of two
    std::uint64_t size;
    Slot slots[1];
  };

  static std::uint32_t FindIn(const Map* map, std::uint64_t fingerprint);
  static void Insert(Map& map, std::uint64_t fingerprint, std::uint32_t number);
  bool Grow();
  std::uint32_t Write(const Interpreter& interpreter, std::uint64_t code);
  std::byte* Room(std::size_t bytes);

  recorder::Recorder* recorder_;
  std::atomic<Map*> map_ = nullptr;
  std::mutex mutex_;  // all below
  std::uint32_t count_ = 0;
  std::byte* next_ = nullptr;
  std::byte* end_ = nullptr;
  std::uint64_t next_extent_bytes_ = 64 * 1024;
  std::uint64_t all_extent_bytes_ = 0;
};

}  // namespace cuheap::python

#endif  // CUHEAP_INTERPOSE_PYTHON_CODE_TABLE_H_
