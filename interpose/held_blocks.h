// Blocks of the pools that the program freed while a capture was open: kept until the last graph that may use them is
// gone.
//
// Note [As long as the graph]
// Each such block gets one Pin, which every capture open at the free shares. At the end of a capture its pins become a
// CUDA user object of the captured graph. The driver then does the counting: clones, child graphs, executable graphs
// and updates take references of their own, and the object's destructor runs once all of them are gone and the launches
// have finished. Source: CUDA Driver API, cuUserObjectCreate; CUDA C++ Programming Guide, "CUDA User Objects". A
// capture that fails leaves no graph, and drops its pins at once. Where the driver has no user objects (before
// CUDA 11.3) the blocks are kept for good.
//
// Natively such memory is the device's again at the free. So before any request fails, all pins are given up: a graph
// that still uses such a block would natively use memory that is not there.
//
// Threads: any; destructors of pins run on a thread of the driver's, in which CUDA calls are not permitted, and make
// none.
#ifndef CUHEAP_INTERPOSE_HELD_BLOCKS_H_
#define CUHEAP_INTERPOSE_HELD_BLOCKS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_set>

#include "allocator/stream_pool.h"
#include "allocator/sync_pool.h"
#include "interpose/capture_watch.h"

namespace cuheap {

class HeldBlocks {
 public:
  // Null: there is no such pool. Both outlive every pin.
  void Use(SyncPool* pool, StreamPool* streams) {
    pool_ = pool;
    streams_ = streams;
  }

  // A block that was pinned for now and then freed.
  CaptureWatch::Pin Hold(const PoolBlock& block);
  // context: in which the block was freed.
  CaptureWatch::Pin Hold(const StreamPoolBlock& block, std::uint64_t context);

  // The context is gone, and with it all that it ran.
  void ContextGone(std::uint64_t context);
  // Gives all pins up. The number of blocks that wait for proof now as any freed block does.
  std::size_t ReleaseAll();
  // Bytes of driver allocations that are kept only for this: natively they are free.
  std::size_t Bytes(int device) const {
    return device >= 0 && device < kDevices ? bytes_[device].load(std::memory_order_relaxed) : 0;
  }

 private:
  static constexpr int kDevices = 64;
  struct Facts {
    DeviceAddress address = 0;
    std::uint64_t incarnation = 0;
    std::uint64_t context = 0;
    bool in_stream = false;
    int device = -1;
    std::size_t bytes = 0;
  };
  struct Block {
    Block(HeldBlocks* owner_in, const Facts& facts_in) : owner(owner_in), facts(facts_in) {}
    ~Block() { owner->Drop(this); }
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    HeldBlocks* const owner;
    Facts facts;
  };

  CaptureWatch::Pin Add(const Facts& facts);
  void Drop(Block* block);
  void Unpin(const Facts& facts);

  SyncPool* pool_ = nullptr;
  StreamPool* streams_ = nullptr;
  std::mutex mutex_;
  std::unordered_set<Block*> held_;
  std::atomic<std::size_t> bytes_[kDevices] = {};
};

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_HELD_BLOCKS_H_
