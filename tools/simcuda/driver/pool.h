// The stream-ordered allocator: memory pools (Driver API reference 6.17).
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>

#include "tools/simcuda/driver/context.h"
#include "tools/simcuda/driver/memory.h"

namespace simcuda {

class SharedFile;

// A pool maps pages of 2 MiB and cuts them at 512 bytes, best fit. A freed range is
//   at once reusable for its own stream (in stream order that is after the free), and
//   for others only once the free has run: the adversarial reading of the reuse rules, since both the opportunistic
//   reuse and the reuse along event dependencies are allowed, not promised.
// Pages that hold nothing go back to the device at a synchronisation when more than the release threshold is reserved.
struct Pool {
  CUmemoryPool handle = nullptr;
  Device* device = nullptr;
  bool is_default = false;
  bool destroyed = false;  // cuMemPoolDestroy was called; ends with its last block
  bool imported = false;   // another process's: no memory is taken from it, only its pointers are mapped
  size_t max_bytes = 0;    // 0: no limit
  uint64_t release_threshold = 0;
  uint64_t reserved = 0, reserved_high = 0;
  uint64_t used = 0, used_high = 0;
  int reuse_event_dependencies = 1, reuse_opportunistic = 1, reuse_internal_dependencies = 1;
  std::map<int, CUmemAccess_flags> access;  // by device ordinal

  struct Freed {
    uint64_t address;
    size_t bytes;
    uint64_t stream_id;
    std::shared_ptr<Work> free_work;
  };
  std::map<uint64_t, size_t> pages;  // mapped ranges, whole pages
  std::map<uint64_t, size_t> free;   // reusable by any stream; never adjacent
  std::list<Freed> freed;            // the free has not run yet

  // Pools whose handles are file descriptors: their memory is one file.
  std::shared_ptr<SharedFile> file;
  uint64_t file_used = 0;
  std::map<uint64_t, uint64_t> file_offsets;  // of each growth: address -> offset
};

// Takes a block for `stream`. Errors: OUT_OF_MEMORY.
CUresult PoolAllocate(const std::shared_ptr<Pool>& pool, Stream& stream, size_t bytes, Block** block);
// Gives a block back. free_work: the queued free; null when the block is free now.
void PoolFree(const Block& block, const std::shared_ptr<Stream>& stream, const std::shared_ptr<Work>& free_work);
// Unmaps unused pages (of a pool that others may have imported: only once it is destroyed) until at most `keep` bytes are reserved.
void PoolTrim(Pool& pool, uint64_t keep);

// Where a block of a pool with a file lies in it.
uint64_t OffsetInFile(const Pool& pool, const Block& block);
// Maps a block of another process's pool. Errors: INVALID_VALUE, OUT_OF_MEMORY.
CUresult MapImported(const std::shared_ptr<Pool>& pool, uint64_t offset, size_t bytes, Block** block);
// Unmaps it, once nothing that was queued before uses it.
void UnmapImported(Pool& pool, const Block& block);

// Forgets destroyed pools that hold nothing any more.
void DropEmptyPools();

void MakeDefaultPool(Device& device);
void TrimPoolsAfterSynchronization();
// Gives back what the device's pools hold unused; another allocation on the device has failed.
void TrimPoolsUnderPressure(Device& device);
// Whether the range lies in mapped pages of a pool, in use or not.
bool InPoolPages(uint64_t address, size_t bytes);

}  // namespace simcuda
