// Interned stacks: each different stack is written into the journal once and has one id.
//
//   key --(hash, no lock)--> Known: same key seen before -> id                      the steady state
//    |
//    +--(lock) module and offset of each native frame, Python frames put between
//              them --> words seen before -> id                                     known under other addresses
//                   \-> written into the journal                                    new
//
// The key is the native addresses and behind them the words of the Python frames; where these belong among the native
// ones follows from both, so it is found out for new stacks only.
//
// Addresses stop meaning what they meant when an object is unloaded: a Known remembers in which generation of the
// loaded objects it was true, and is looked at again in a later one.
#ifndef CUHEAP_INTERPOSE_STACKS_STACK_TABLE_H_
#define CUHEAP_INTERPOSE_STACKS_STACK_TABLE_H_

#include <atomic>
#include <cstdint>
#include <mutex>

#include "interpose/journal/format.h"
#include "interpose/python/frame_walk.h"
#include "interpose/recorder/own_memory.h"
#include "interpose/recorder/recorder.h"
#include "interpose/recorder/state.h"
#include "interpose/stacks/module_table.h"

namespace cuheap::stacks {

inline constexpr unsigned kMaxDepth = 250;                                  // native frames
inline constexpr unsigned kMaxWords = kMaxDepth + python::kMaxPythonDepth;  // and Python frames

// A stack as it was walked.
struct StackKey {
  const std::uint64_t* words = nullptr;  // return addresses, then Python words; each innermost first
  unsigned native_depth = 0;             // <= kMaxDepth
  unsigned depth = 0;                    // <= kMaxWords
  std::uint16_t flags = 0;               // journal::kStackTruncated, ..., but for kStackPythonUnplaced
};

// Where the Python frames belong: behind how many native frames each comes.
struct PythonPlaces {
  const std::uint16_t* after = nullptr;  // native_depth for all that are unplaced
  bool unplaced = false;
};

struct InternedStack {
  recorder::StackId id = 0;  // 0: no room
  bool caller_is_pytorch = false;
  bool new_modules = false;  // a module was seen for the first time
};

class StackTable {
 public:
  explicit StackTable(recorder::Recorder* recorder) : recorder_(recorder) {}

  // The steady state: false if the stack is not known yet, or was in another generation of the loaded objects.
  bool Find(const StackKey& key, std::uint32_t generation, InternedStack& stack) const;
  // Precondition: the addresses are active on the calling thread's stack right now.
  InternedStack Add(const StackKey& key, const PythonPlaces& places, std::uint32_t generation);

  // The role of the first frame above the CUDA libraries is PyTorch's; for stacks that are not kept.
  bool CallerIsPyTorch(const std::uint64_t* addresses, unsigned depth, std::uint32_t generation);

 private:
  // A stack by its key, in our own memory, never freed. `generation` may be raised; the rest never changes.
  struct Known {
    std::uint64_t hash;
    std::uint32_t id;
    std::uint16_t native_depth;
    std::uint16_t depth;
    std::uint16_t flags;
    bool caller_is_pytorch;
    std::atomic<std::uint32_t> generation;
    std::uint64_t words[1];  // depth of them
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

  static bool Same(const Known& known, std::uint64_t hash, const StackKey& key);
  static Known* FindKnown(const KnownMap* map, std::uint64_t hash, const StackKey& key);
  recorder::StackId FindOrWrite(const std::uint64_t* words, unsigned depth, std::uint16_t flags);
  recorder::StackId Write(std::uint64_t hash, const std::uint64_t* words, unsigned depth, std::uint16_t flags,
                          const journal::StackHeader*& header);
  bool AddExtent(std::uint64_t words_needed);
  void Remember(std::uint64_t hash, const InternedStack& stack, const StackKey& key, std::uint32_t generation);
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
  std::uint64_t merged_[kMaxWords] = {};  // Add's; too large for the stacks of some threads
};

}  // namespace cuheap::stacks

#endif  // CUHEAP_INTERPOSE_STACKS_STACK_TABLE_H_
