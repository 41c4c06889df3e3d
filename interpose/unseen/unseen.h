// The self-check: who reaches the driver without us.
//
// Note [How it is found]
// Whoever calls the driver past us holds an address of the driver's: in a slot that the loader bound (an object opened
// with RTLD_DEEPBIND), or in a table that it filled by look-ups of its own. Whoever goes by us holds an address of
// ours. So the writable data of every mapped file is searched for words that are addresses of the driver's functions.
// That needs no symbols, sees every namespace of the loader, and asks the loader for nothing: the files come from
// /proc/self/maps, and memory is read through the kernel, so that a library that is unloaded meanwhile costs a refused
// read, not the process. No lock, no allocation but one mapping of its own. A table on a heap is not found; its owner
// mostly is, since its dlsym is not ours (Way::kOwnLookups).
//
// It reads all writable data once (some ms, 5 GB a second), so it runs at the end of the process, and for one file
// before that is closed (docs/decisions/0011).
#ifndef CUHEAP_INTERPOSE_UNSEEN_UNSEEN_H_
#define CUHEAP_INTERPOSE_UNSEEN_UNSEEN_H_

#include <cstddef>
#include <cstdint>

#include "interpose/journal/format.h"

namespace cuheap::unseen {

using Way = journal::UnseenWay;

inline constexpr std::size_t kPathBytes = 208;  // what a note holds; of longer paths the end is kept

struct Library {
  char path[kPathBytes];
  Way way;
  std::uint32_t functions;  // words that it holds
};

// A copy of the driver beside the one that we stand in front of, or in another namespace.
struct OtherDriver {
  char path[kPathBytes];
};

// What is known before.
struct Surroundings {
  const void* ours = nullptr;    // any address of our own library
  const void* driver = nullptr;  // any function of the driver that we stand in front of; null: none was asked for
  bool (*hooked)(const char* name) = nullptr;  // whether a driver's export of this name is hooked
  std::uint64_t dlsym = 0, dlvsym = 0;         // the C library's own
};

struct Findings {
  static constexpr std::size_t kMaxLibraries = 64;
  static constexpr std::size_t kMaxDrivers = 8;

  Library libraries[kMaxLibraries];
  std::size_t library_count;
  OtherDriver drivers[kMaxDrivers];
  std::size_t driver_count;
  std::size_t left_out;          // what had no room
  std::size_t device_files;      // that CUDA alone uses, open or mapped
  bool driver_is_mapped;         // any copy
  bool looked;                   // false: no memory, or no /proc; nothing is known then
  char driver_path[kPathBytes];  // of one of the copies
};

// Adds to what `findings` has; the same library is there once. `only`: an address inside the one file to look at, or 0
// for all. All-zero findings are empty ones.
void Look(const Surroundings& surroundings, std::uint64_t only, Findings& findings);

}  // namespace cuheap::unseen

#endif  // CUHEAP_INTERPOSE_UNSEEN_UNSEEN_H_
