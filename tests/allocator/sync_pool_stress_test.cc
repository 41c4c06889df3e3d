// Threads that allocate, free, synchronise, give back and destroy contexts at once; a shadow of the address space knows
// who owns what. Under the tsan preset this is also the test that the pool's own state is guarded.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "allocator/fake_device_memory.h"
#include "allocator/sync_pool.h"

namespace cuheap {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr DeviceAddress kFirst = FakeDeviceMemory::Options{}.first_address;
constexpr std::size_t kSpan = 512 * kMiB;  // addresses that the fake hands out lie in [kFirst, kFirst + kSpan)
constexpr ContextId kShared[] = {0x10, 0x20};
using Operation = FakeDeviceMemory::Operation;

// A cell for every 512 bytes. Of a block the first and the last cell are used: overlaps show at one of these.
class Shadow {
 public:
  void Take(const PoolBlock& block) {
    ForEachCell(block, [&](Cell& cell) {
      if (cell.owned.exchange(true)) Fail("a live block was handed out");
      // freed_at is from before the free, begun (see Completed) from after the ticket was drawn: no false alarm.
      const std::uint64_t freed_at = cell.freed_at.exchange(0);
      if (freed_at > CompletedOf(block.context).load()) Fail("reused before a synchronisation begun after the free");
    });
  }
  void Give(const PoolBlock& block) {
    const std::uint64_t now = Tick();
    ForEachCell(block, [&](Cell& cell) {
      cell.freed_at.store(now);
      if (!cell.owned.exchange(false)) Fail("a block was not its owner's");
    });
  }
  // The driver gets the range back: reuse after that is its affair.
  void Forget(DeviceAddress address, std::size_t bytes) {
    for (DeviceAddress a = address; a < address + bytes; a += 512) {
      Cell& cell = CellAt(a);
      cell.freed_at.store(0);
      if (cell.owned.load()) Fail("a live block was given back");
    }
  }
  std::uint64_t Tick() { return clock_.fetch_add(1) + 1; }
  void Completed(ContextId context, std::uint64_t begun) {
    std::atomic<std::uint64_t>& completed = CompletedOf(context);
    std::uint64_t seen = completed.load();
    while (seen < begun && !completed.compare_exchange_weak(seen, begun)) {
    }
  }
  bool failed() const { return failed_.load(); }

 private:
  struct Cell {
    std::atomic<bool> owned{false};
    std::atomic<std::uint64_t> freed_at{0};
  };
  Cell& CellAt(DeviceAddress address) { return cells_.at((address - kFirst) / 512); }
  template <class F>
  void ForEachCell(const PoolBlock& block, F f) {
    Cell& begin = CellAt(block.address);
    Cell& end = CellAt(block.address + block.block_bytes - 1);
    f(begin);
    if (&begin != &end) f(end);
  }
  std::atomic<std::uint64_t>& CompletedOf(ContextId context) { return completed_.at(context); }
  void Fail(const char* what) {
    if (!failed_.exchange(true)) ADD_FAILURE() << what;
  }

  std::vector<Cell> cells_ = std::vector<Cell>(kSpan / 512);
  std::vector<std::atomic<std::uint64_t>> completed_ = std::vector<std::atomic<std::uint64_t>>(0x100);
  std::atomic<std::uint64_t> clock_{0};
  std::atomic<bool> failed_{false};
};

class Stress : public SyncPoolObserver {
 public:
  Stress(std::size_t capacity, SyncPoolOptions options)
      : memory_({.capacity = capacity, .granule = 2 * kMiB}), pool_(memory_, this, options) {
    memory_.set_watcher([this](const FakeDeviceMemory::Call& call, bool after, DriverResult result) {
      static thread_local std::uint64_t begun = 0;
      if (call.operation != Operation::kSynchronize) return;
      if (!after) begun = shadow_.Tick();
      if (after && result.ok()) shadow_.Completed(call.context, begun);
    });
  }

  void Run(int threads, int steps) {
    std::vector<std::thread> running;
    running.reserve(static_cast<std::size_t>(threads));
    for (int i = 0; i < threads; ++i) running.emplace_back([this, i, steps] { Work(i, steps); });
    for (std::thread& thread : running) thread.join();
    for (auto& slot : exchange_) Free(slot);
    for (const ContextId context : kShared) Synchronize(context);
    pool_.ReleaseIdle();
    pool_.ReleaseIdle();  // should an injected failure have been left over
  }

  FakeDeviceMemory& memory() { return memory_; }
  SyncPool& pool() { return pool_; }
  const Shadow& shadow() const { return shadow_; }
  std::size_t segments_held() const { return segments_.size(); }

 private:
  void Work(int thread, int steps) {
    std::mt19937 random(static_cast<unsigned>(thread));
    const ContextId own = 0x40 + static_cast<ContextId>(thread);
    std::vector<PoolBlock> blocks;
    std::vector<PoolBlock> private_blocks;
    for (int step = 0; step < steps && !shadow_.failed(); ++step) {
      const auto dice = random() % 100;
      const ContextId context = kShared[random() % 2];
      if (dice < 40) {
        Allocate(context, RandomSize(random), &blocks);
      } else if (dice < 45) {
        Allocate(own, RandomSize(random), &private_blocks);
      } else if (dice < 82 && !blocks.empty()) {
        std::swap(blocks[random() % blocks.size()], blocks.back());
        Free(blocks.back());
        blocks.pop_back();
      } else if (dice < 90 && !blocks.empty()) {
        // Another thread will free it.
        const std::lock_guard lock(exchange_mutex_);
        std::swap(exchange_[random() % std::size(exchange_)], blocks.back());
        if (blocks.back().address == 0) blocks.pop_back();
      } else if (dice < 95) {
        Synchronize(context);
      } else if (dice < 97) {
        pool_.ReleaseIdle();
      } else if (dice < 98) {
        memory_.FailCall(memory_.calls() + random() % 5, DriverResult{random() % 2 == 0 ? 2 : 700});
      } else if (dice < 99) {
        DestroyContext(own, &private_blocks);
      } else {
        const SyncPoolStats s = pool_.Stats();
        EXPECT_EQ(s.reserved, s.active + s.quarantined + s.ready + s.pinned + s.tail);
        if (!blocks.empty()) {
          EXPECT_EQ(pool_.Find(blocks[0].address).value_or(PoolBlock{}).incarnation, blocks[0].incarnation);
        }
      }
    }
    for (PoolBlock& block : blocks) Free(block);
    DestroyContext(own, &private_blocks);
  }

  static std::size_t RandomSize(std::mt19937& random) {
    switch (random() % 3) {
      case 0:
        return random() % 5000 + 1;
      case 1:
        return random() % kMiB + 1;
      default:
        return 2 * kMiB + random() % (2 * kMiB);
    }
  }

  void Allocate(ContextId context, std::size_t bytes, std::vector<PoolBlock>* blocks) {
    memory_.set_current_context(context);
    const AllocateOutcome outcome = pool_.Allocate(context, 0, bytes);
    if (!outcome.result.ok()) return;
    shadow_.Take(outcome.block);
    blocks->push_back(outcome.block);
  }

  void Free(const PoolBlock& block) {
    if (block.address == 0) return;
    shadow_.Give(block);
    EXPECT_EQ(pool_.Free(block.address).status, FreeStatus::kFreed);
  }

  void Synchronize(ContextId context) {
    const SyncTicket ticket = pool_.BeginSynchronize(context);
    const std::uint64_t begun = shadow_.Tick();
    shadow_.Completed(context, begun);
    pool_.EndSynchronize(context, ticket, true);
  }

  void DestroyContext(ContextId context, std::vector<PoolBlock>* blocks) {
    pool_.ContextDestroying(context);
    for (const PoolBlock& block : *blocks) shadow_.Give(block);
    blocks->clear();
    {
      // From the real destruction on, another thread can be given these addresses.
      const std::lock_guard lock(segments_mutex_);
      for (auto segment = segments_.begin(); segment != segments_.end();) {
        if (segment->second.second != context) {
          ++segment;
          continue;
        }
        shadow_.Forget(segment->first, segment->second.first);
        segment = segments_.erase(segment);
      }
    }
    memory_.DestroyContext(context);
    pool_.ContextDestroyed(context);
  }

  void SegmentAllocated(ContextId context, int, DeviceAddress address, std::size_t bytes) override {
    const std::lock_guard lock(segments_mutex_);
    EXPECT_TRUE(segments_.try_emplace(address, bytes, context).second) << "told twice";
  }
  void SegmentFreeing(ContextId context, int, DeviceAddress address, std::size_t bytes) override {
    const std::lock_guard lock(segments_mutex_);
    const auto found = segments_.find(address);
    if (found == segments_.end() || found->second.second != context) return;  // gone with its context
    shadow_.Forget(address, bytes);
    segments_.erase(found);
  }

  FakeDeviceMemory memory_;
  Shadow shadow_;
  std::mutex segments_mutex_;
  std::map<DeviceAddress, std::pair<std::size_t, ContextId>> segments_;
  std::mutex exchange_mutex_;
  PoolBlock exchange_[16];
  SyncPool pool_;
};

void ExpectNothingLeft(Stress& stress) {
  EXPECT_FALSE(stress.shadow().failed());
  EXPECT_TRUE(stress.memory().Live().empty());
  EXPECT_EQ(stress.memory().invalid_frees(), 0u);
  EXPECT_EQ(stress.segments_held(), 0u);
  const SyncPoolStats stats = stress.pool().Stats();
  EXPECT_EQ(stats.reserved, 0u);
  EXPECT_EQ(stats.segments, 0u);
  EXPECT_GT(stats.hits, 0u);
}

TEST(SyncPoolStressTest, WithMemoryToSpare) {
  Stress stress(256 * kMiB, {});
  stress.Run(4, 4000);
  ExpectNothingLeft(stress);
}

TEST(SyncPoolStressTest, AtTheEdgeOfMemory) {
  Stress stress(24 * kMiB, {});
  stress.Run(4, 4000);
  ExpectNothingLeft(stress);
  EXPECT_GT(stress.pool().Stats().synchronizations, 0u);
}

// The parent's other threads may hold the pool's lock at the instant of the fork: nobody in the child will release it.
TEST(SyncPoolStressTest, AChildForkedAtAnyInstantGoesOnWithoutThePool) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer does not follow a fork of a process with threads";
#endif
  FakeDeviceMemory memory;
  SyncPool pool(memory, nullptr, {});
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) pool.Free(pool.Allocate(kShared[0], 0, 4096).block.address);
  });
  int hung = 0;
  for (int i = 0; i < 50 && hung == 0; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      pool.DisableInChild();
      const bool inert = pool.Allocate(kShared[0], 0, 4096).result == kDriverInvalidValue && !pool.Owns(kFirst) &&
                         pool.Free(kFirst).status == FreeStatus::kNotOurs && pool.Stats().reserved == 0 &&
                         pool.BeginSynchronize(kShared[0]) == 0 && pool.ReleaseIdle() == 0;
      pool.ContextDestroying(kShared[0]);
      pool.ContextDestroyed(kShared[0]);
      _exit(inert ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    hung += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  }
  stop = true;
  busy.join();
  EXPECT_EQ(hung, 0);
}

}  // namespace
}  // namespace cuheap
