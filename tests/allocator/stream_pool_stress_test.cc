// Threads on one StreamPool: their blocks never overlap, the driver is never misused, and the lock is never held while
// it is called (the fake takes its own lock and would show an inversion under ThreadSanitizer).
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "allocator/fake_stream_memory.h"
#include "allocator/stream_pool.h"

namespace cuheap {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

// Ranges that are in use; adding one that overlaps another is a failure.
class Ranges {
 public:
  bool Add(DeviceAddress address, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto after = ranges_.lower_bound(address);
    if (after != ranges_.end() && after->first < address + bytes) return false;
    if (after != ranges_.begin() && std::prev(after)->first + std::prev(after)->second > address) return false;
    ranges_[address] = bytes;
    return true;
  }
  void Remove(DeviceAddress address) {
    const std::lock_guard lock(mutex_);
    ranges_.erase(address);
  }

 private:
  std::mutex mutex_;
  std::map<DeviceAddress, std::size_t> ranges_;
};

struct Worker {
  StreamPool& pool;
  FakeStreamMemory& memory;
  Ranges& ranges;
  StreamPoolId id;
  std::atomic<int>& failures;

  void Run(unsigned number) {
    std::mt19937 random(number);
    StreamRef stream{number * 1000 + 1, number, 0xC1, StreamKind::kOrdinary};
    memory.AddStream(stream.id, 0xC1);
    std::vector<std::pair<DeviceAddress, std::size_t>> blocks;
    for (int i = 0; i < 20000; ++i) {
      if (blocks.size() < 12 && random() % 2 == 0) {
        const std::size_t bytes = random() % (random() % 3 == 0 ? 6 * kMiB : 60'000) + 1;
        const StreamAllocateOutcome outcome = pool.Allocate(id, stream, bytes);
        if (!outcome.result.ok()) continue;
        failures += !ranges.Add(outcome.block.address, outcome.block.block_bytes);
        blocks.emplace_back(outcome.block.address, bytes);
        memory.Submit(stream.id);
      } else if (!blocks.empty()) {
        ranges.Remove(blocks.back().first);
        failures +=
            pool.Free(blocks.back().first, random() % 8 == 0 ? nullptr : &stream).status != StreamFreeStatus::kFreed;
        blocks.pop_back();
      }
      Rarely(random, &stream, number);
    }
    for (const auto& [address, bytes] : blocks) {
      ranges.Remove(address);
      pool.Free(address, &stream);
    }
  }

  void Rarely(std::mt19937& random, StreamRef* stream, unsigned number) {
    switch (random() % 200) {
      case 0:
        pool.ReleaseIdle(0, random() % 4 * kMiB);
        break;
      case 1: {
        const std::uint64_t point = pool.BeginSynchronize();
        memory.Complete(stream->id, memory.Submitted(stream->id));
        if (pool.StreamCompleted(stream->id, point)) pool.TrimAfterSynchronization();
        break;
      }
      case 2: {
        const AccessGrant grant{static_cast<int>(1 + random() % 3), 3};
        failures += !pool.SetAccess(id, &grant, 1).ok();
        break;
      }
      case 3:
        pool.StreamDestroying(stream->id);
        memory.DestroyStream(stream->id);
        pool.StreamDestroyed(stream->id);
        *stream = {stream->id + 1, number, 0xC1, StreamKind::kOrdinary};
        memory.AddStream(stream->id, 0xC1);
        break;
      case 4:
        pool.TrimTo(id, 8 * kMiB);
        break;
      case 5:
        pool.IdleBytes(0);
        break;
      default:
        memory.Complete(stream->id, memory.Completed(stream->id) + random() % 3);
    }
  }
};

TEST(StreamPoolStress, ThreadsShareAPool) {
  FakeStreamMemory memory({.capacity = 96 * kMiB});
  StreamPool pool(memory, nullptr, {.region_bytes = 512 * kMiB, .chunk_bytes = 8 * kMiB});
  const StreamPoolId id = pool.AddPool(0, 0);
  pool.SetReleaseThreshold(id, 32 * kMiB);
  Ranges ranges;
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (unsigned i = 1; i <= 4; ++i) threads.emplace_back([&, i] { Worker{pool, memory, ranges, id, failures}.Run(i); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(memory.misuses(), 0u);
  EXPECT_EQ(pool.CheckInvariants(), nullptr);
  const StreamPoolStats stats = pool.Stats(id);
  EXPECT_EQ(stats.used, 0u);
  EXPECT_EQ(stats.moving, 0u);
  EXPECT_EQ(stats.reserved, memory.held(0));
  const std::uint64_t point = pool.BeginSynchronize();
  pool.ContextCompleted(0xC1, point);
  pool.ReleaseIdle();
  EXPECT_EQ(memory.held(0), 0u) << "everything can go back when nothing is used";
}

}  // namespace
}  // namespace cuheap
