// The life of every block that a snapshot knows: allocations joined with their frees and with the live table.
#ifndef CUHEAP_ANALYSIS_REPORTS_BLOCKS_H_
#define CUHEAP_ANALYSIS_REPORTS_BLOCKS_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "analysis/snapshot.h"

namespace cuheap::analysis {

// Note [The end]
// When a process exits, the CUDA runtime's exit handlers destroy the contexts, and all memory goes with them; many
// programs do the same with cudaDeviceReset. What a person calls "held at the end" is what was held just before. So the
// destruction of contexts that nothing follows does not count: its blocks and our pool's segments are live. What went
// with a context before counts as freed with it.

// Note [PyTorch's cache]
// What PyTorch's allocator asks the driver for are segments of its cache, multiples of 2 MiB, in which it places many
// tensors. With its caching switched off (PYTORCH_NO_CUDA_MEMORY_CACHING) or its asynchronous back end each tensor is a
// driver call of its own: stream-ordered, or of any size. Those are judged as the program's own blocks. Pinned memory
// has a cache of its own, which asks the runtime like anybody else: its stack tells.

inline constexpr std::int64_t kNotFreed = std::numeric_limits<std::int64_t>::max();
inline constexpr std::int64_t kBeforeWindow = kTimeUnknown;

// Positions order what happened at the same nanosecond: they count the window's events from 1; a block allocated before
// the window has position 0, one that was never freed has the position of no event.
inline constexpr std::uint64_t kNoPosition = std::numeric_limits<std::uint32_t>::max();

// There are millions: the order of the members leaves no holes, and positions have 32 bits.
struct Block {
  std::uint64_t id = 0, address = 0, bytes = 0, stream = 0;
  std::uint64_t reserved_bytes = 0;           // live blocks only; else the same as bytes
  std::int64_t allocated_ns = kBeforeWindow;  // kBeforeWindow: its allocation was overwritten and it is not live
  std::int64_t freed_ns = kNotFreed;
  std::uint64_t allocated_at : 32 = 0, freed_at : 32 = kNoPosition;  // positions
  std::uint64_t context_end : 32 = kNoPosition;  // if freed with its context: position of the first that it took along
  std::uint32_t stack = 0, thread = 0, device = 0;
  AllocationKind kind = AllocationKind::kNone;
  Allocator allocator = Allocator::kProgram;
  bool served = false;    // lies in our pool
  bool uncached = false;  // asked for by PyTorch for one tensor: its caching is off, see Note [PyTorch's cache]
  bool live = false;      // held at the end: see Note [The end]
  bool freed_with_context = false;  // the program never freed it, its context went away
  bool freed_at_shutdown = false;   // freed after the process began to exit
  // What the program did not free itself while it ran.
  bool in_framework_cache() const { return allocator == Allocator::kPyTorch && !uncached && !is_tensor(); }
  // Lies in a segment of a framework's cache.
  bool is_tensor() const { return kind == AllocationKind::kTensor; }
  // A single tensor of PyTorch, in its cache or asked of the driver.
  bool framework_tensor() const { return is_tensor() || (allocator == Allocator::kPyTorch && uncached); }
  bool never_freed() const { return freed_ns == kNotFreed || freed_with_context; }
};

static_assert(sizeof(Block) == 88);

// Program memory and our pool's segments apart. Order: time of allocation, position, id.
struct Blocks {
  // Time of the oldest event that was kept, if older ones were overwritten: of what happened before, only what is still
  // live is known.
  std::int64_t window_begin_ns = kBeforeWindow;
  bool still_running = false;  // when the record was read: what the present step needs is live
  std::vector<Block> program;
  std::vector<Block> segments;
  // Device memory that counts against a device (see OfOthers), as opposed to host memory.
  static bool OnDevice(AllocationKind kind);
  static bool OnHost(AllocationKind kind);
  // Neither: somebody else's memory that is open here, and objects over memory that counts by itself.
  static bool OfOthers(AllocationKind kind);
};
// A free that failed is no free. Works on damaged snapshots too: unknown ids are ignored.
Blocks JoinBlocks(const Snapshot& snapshot);

// Some of the program's blocks.
class BlockSet {
 public:
  // The blocks must outlive it, and stay where they are.
  explicit BlockSet(const Blocks& blocks) : first_(blocks.program.data()), holds_(blocks.program.size(), false) {}
  void insert(const Block* block) { holds_[static_cast<std::size_t>(block - first_)] = true; }
  bool contains(const Block* block) const { return holds_[static_cast<std::size_t>(block - first_)]; }

 private:
  const Block* first_;
  std::vector<bool> holds_;
};

// What curves of memory over time show: from the first allocation (or the oldest event that was kept) to the last
// allocation or free before the process began to exit. Start-up and the way out take long in Python and hold nothing
// new.
struct Span {
  std::int64_t begin_ns = 0, end_ns = 0;
};
Span ActiveSpan(const Snapshot& snapshot, const Blocks& blocks);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_BLOCKS_H_
