// The journal's file: created, and grown extent by extent. What is in the extents is the business of the classes on
// top.
//
// No descriptor is kept: programs close descriptors they don't know and reuse their numbers, and must find their own
// numbers as they would be without us. Growing opens the file again by its path and checks that it is the same file.
#ifndef CUHEAP_INTERPOSE_RECORDER_JOURNAL_FILE_H_
#define CUHEAP_INTERPOSE_RECORDER_JOURNAL_FILE_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <mutex>

#include "interpose/journal/format.h"

namespace cuheap::recorder {

// Why there is no journal; a plain English clause without newline, for stderr.
struct OpenError {
  char text[256] = "";
};

class JournalFile {
 public:
  constexpr JournalFile() = default;
  JournalFile(const JournalFile&) = delete;
  JournalFile& operator=(const JournalFile&) = delete;

  // Creates "<directory>/<pid>-<ticks>[.<image>].journal" with its header allocated, mapped and zero but for
  // Extent directory and limits. The directory must be a real directory (no link), belong to the effective user and be
  // closed to all others; its last component is made if missing. The header is not published (magic, state) yet.
  bool Create(const char* directory, std::uint64_t pid, std::uint64_t start_ticks, OpenError& error);
  // Publishes the header: from here on the file is a journal.
  void Publish();

  journal::FileHeader* header() const { return header_; }
  const char* path() const { return path_; }
  // Statfs type of the file system, for a note.
  bool on_network_file_system() const { return network_; }

  struct NewExtent {
    void* memory = nullptr;  // nullptr: none
    std::uint64_t bytes = 0;
  };
  // Allocates, maps and publishes an extent of `bytes`, or of `least_bytes` where that is all that is left; both are
  // multiples of journal::kExtentAlignment. `prepare`, if given, writes what must be there before publication. None
  // when there is no space, memory or directory entry; after such a failure the next attempts within a second fail at
  // once, so that a full disk costs the program no system call per allocation. Threads: any. errno is kept.
  NewExtent AddExtent(journal::ExtentKind kind, std::uint32_t owner, std::uint64_t bytes, std::uint64_t least_bytes,
                      void (*prepare)(void* memory, void* argument) = nullptr, void* argument = nullptr);
  // True once an extent could not be had for lack of space.
  bool out_of_space() const { return out_of_space_.load(std::memory_order_relaxed); }

 private:
  void* AllocateAndMap(std::uint64_t bytes);
  int Reopen() const;

  journal::FileHeader* header_ = nullptr;
  std::mutex mutex_;
  std::uint64_t file_bytes_ = 0;
  std::uint64_t retry_after_ns_ = 0;
  std::atomic<bool> out_of_space_ = false;
  bool network_ = false;
  dev_t file_system_ = 0;
  ino_t inode_ = 0;
  char path_[4096] = "";
};

// CLOCK_MONOTONIC in nanoseconds.
std::uint64_t MonotonicNs();

}  // namespace cuheap::recorder

#endif  // CUHEAP_INTERPOSE_RECORDER_JOURNAL_FILE_H_
