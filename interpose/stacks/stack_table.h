// Interned stacks: each different stack is written into the journal once and has one id.
//
//   addresses --(hash, no lock)--> Known: same addresses seen before -> id          the steady state
//        |
//        +--(lock) module and offset of each frame --> words seen before -> id      known under other addresses
//                                                  \-> written into the journal     new
//
// Addresses stop meaning what they meant when an object is unloaded: a Known remembers in which generation of the
// loaded objects it was true, and is looked at again in a later one.
#ifndef CUHEAP_INTERPOSE_STACKS_STACK_TABLE_H_
#define CUHEAP_INTERPOSE_STACKS_STACK_TABLE_H_

#include <atomic>
#include <cstdint>
#include <mutex>

#include "interpose/journal/format.h"
#include "interpose/recorder/own_memory.h"
#include "interpose/recorder/recorder.h"
#include "interpose/recorder/state.h"
#include "interpose/stacks/module_table.h"

namespace cuheap::stacks {

inline constexpr unsigned kMaxDepth = 250;

struct InternedStack {
  recorder::StackId id = 0;  // 0: no room
  bool caller_is_pytorch = false;
};

class StackTable {
 public:
  explicit StackTable(recorder::Recorder* recorder) : recorder_(recorder) {}

  // The calling thread's stack: return addresses, innermost first, that are active right now. depth <= kMaxDepth.
  // flags: journal::kStackTruncated, kStackUnwindFailed.
  InternedStack Intern(const std::uint64_t* addresses, unsigned depth, std::uint16_t flags, std::uint32_t generation);

  // The role of the first frame above the CUDA libraries is PyTorch's; for stacks that are not kept.
  bool CallerIsPyTorch(const std::uint64_t* addresses, unsigned depth, std::uint32_t generation);

 private:
  // A stack by its addresses, in our own memory, never freed. `generation` may be raised; the rest never changes.
  struct Known {
    std::uint64_t hash;
    std::uint32_t id;
    std::uint16_t depth;
    std::uint16_t flags;
    std::atomic<std::uint32_t> generation;
    bool caller_is_pytorch;
    std::uint64_t addresses[1];  // depth of them
  };
  // Open addressing, read without a lock; a bigger one replaces it, the old one stays for those who still read it.
  struct KnownMap {
    std::uint64_t capacity;  // a power of two
    std::uint64_t size;
    std::atomic<Known*> entries[1];
  };
  // A stack by its words: where it is in the journal.
  struct Written {
    std::uint64_t hash;
    const journal::StackHeader* header;  // nullptr: free
    std::uint32_t id;
  };

  static Known* FindKnown(const KnownMap* map, std::uint64_t hash, const std::uint64_t* addresses, unsigned depth,
                          std::uint16_t flags);
  InternedStack InternSlowly(std::uint64_t hash, const std::uint64_t* addresses, unsigned depth, std::uint16_t flags,
                             std::uint32_t generation);
  recorder::StackId FindOrWrite(const std::uint64_t* words, unsigned depth, std::uint16_t flags);
  recorder::StackId Write(std::uint64_t hash, const std::uint64_t* words, unsigned depth, std::uint16_t flags,
                          const journal::StackHeader*& header);
  bool AddExtent(std::uint64_t words_needed);
  void Remember(std::uint64_t hash, const InternedStack& stack, const std::uint64_t* addresses, unsigned depth,
                std::uint16_t flags, std::uint32_t generation);
  KnownMap* GrowKnown(KnownMap* map);
  bool GrowWritten();

  recorder::Recorder* recorder_;
  std::atomic<KnownMap*> known_ = nullptr;
  std::mutex mutex_;  // all below
  ModuleTable modules_;
  Written* written_ = nullptr;
  std::uint64_t written_capacity_ = 0;
  std::uint64_t written_size_ = 0;
  std::uint64_t* next_word_ = nullptr;
  std::uint64_t* end_word_ = nullptr;
  std::uint64_t next_id_ = 0;           // of *next_word_
  std::uint64_t words_in_extents_ = 0;  // in all extents so far
  std::uint64_t next_extent_bytes_ = 64 * 1024;
};

}  // namespace cuheap::stacks

#endif  // CUHEAP_INTERPOSE_STACKS_STACK_TABLE_H_
