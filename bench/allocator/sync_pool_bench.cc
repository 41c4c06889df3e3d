// What the pool itself costs: a pair of allocation and free, the driver left out (FakeDeviceMemory is asked only while
// warming up). A synchronisation every kStep pairs, as a training loop has one a step, and its cost is in the figures.
#include <benchmark/benchmark.h>

#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "allocator/fake_device_memory.h"
#include "allocator/sync_pool.h"

namespace cuheap {
namespace {

constexpr ContextId kContext = 0xC1;
constexpr std::size_t kStep = 256;
constexpr std::size_t kGiB = std::size_t{1} << 30;

void Synchronize(SyncPool& pool) { pool.EndSynchronize(kContext, pool.BeginSynchronize(kContext), true); }

// The same size over and over, one thread.
void BM_SameSize(benchmark::State& state) {
  FakeDeviceMemory memory({.capacity = 1024 * kGiB});
  SyncPool pool(memory, nullptr, {});
  const auto bytes = static_cast<std::size_t>(state.range(0));
  std::size_t pairs = 0;
  while (state.KeepRunning()) {
    const AllocateOutcome outcome = pool.Allocate(kContext, 0, bytes);
    pool.Free(outcome.block.address);
    if (++pairs % kStep == 0) Synchronize(pool);
  }
  state.counters["driver_calls"] = static_cast<double>(memory.calls());
}
BENCHMARK(BM_SameSize)->Arg(512)->Arg(100'000)->Arg(4 << 20);

// The same without the rule, for what the rule costs.
void BM_SameSizeWithoutQuarantine(benchmark::State& state) {
  FakeDeviceMemory memory({.capacity = 1024 * kGiB});
  SyncPool pool(memory, nullptr, {.quarantine = false});
  const auto bytes = static_cast<std::size_t>(state.range(0));
  while (state.KeepRunning()) pool.Free(pool.Allocate(kContext, 0, bytes).block.address);
}
BENCHMARK(BM_SameSizeWithoutQuarantine)->Arg(512)->Arg(4 << 20);

// 1,024 slots, log-uniform sizes from 512 B to 64 MiB: each iteration frees one slot and fills it anew.
void BM_RandomSizes(benchmark::State& state) {
  FakeDeviceMemory memory({.capacity = 64 * 1024 * kGiB});
  SyncPool pool(memory, nullptr, {});
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponent(9, 26);
  std::vector<std::size_t> sizes(1 << 16);
  for (std::size_t& size : sizes) size = static_cast<std::size_t>(std::exp2(exponent(random)));
  std::vector<DeviceAddress> slots(1024);
  std::size_t next = 0;
  const auto turn = [&] {
    DeviceAddress& slot = slots[(next * 389) % slots.size()];
    if (slot != 0) pool.Free(slot);
    slot = pool.Allocate(kContext, 0, sizes[next % sizes.size()]).block.address;
    if (++next % kStep == 0) Synchronize(pool);
  };
  for (int i = 0; i < 200'000; ++i) turn();
  const std::uint64_t calls = memory.calls();
  while (state.KeepRunning()) turn();
  state.counters["driver_calls"] = static_cast<double>(memory.calls() - calls);
  state.counters["utilisation"] = static_cast<double>(pool.Stats().active) / static_cast<double>(pool.Stats().reserved);
}
BENCHMARK(BM_RandomSizes);

// Threads on one pool and one context.
class SharedPool : public benchmark::Fixture {
 public:
  void SetUp(const benchmark::State& state) override {
    if (state.thread_index() != 0) return;
    memory_ = std::make_unique<FakeDeviceMemory>(FakeDeviceMemory::Options{.capacity = 1024 * kGiB});
    pool_ = std::make_unique<SyncPool>(*memory_, nullptr, SyncPoolOptions{});
  }
  void TearDown(const benchmark::State& state) override {
    if (state.thread_index() == 0) pool_.reset();
  }

 protected:
  std::unique_ptr<FakeDeviceMemory> memory_;
  std::unique_ptr<SyncPool> pool_;
};

BENCHMARK_DEFINE_F(SharedPool, SameSize)(benchmark::State& state) {
  std::size_t pairs = 0;
  while (state.KeepRunning()) {
    pool_->Free(pool_->Allocate(kContext, 0, 4096).block.address);
    if (++pairs % kStep == 0) Synchronize(*pool_);
  }
}
BENCHMARK_REGISTER_F(SharedPool, SameSize)->Threads(1)->Threads(2)->Threads(4);

// Looking up an address within a live block, among 10,000.
void BM_Find(benchmark::State& state) {
  FakeDeviceMemory memory({.capacity = 1024 * kGiB});
  SyncPool pool(memory, nullptr, {});
  std::vector<DeviceAddress> addresses;
  addresses.reserve(10'000);
  for (int i = 0; i < 10'000; ++i) {
    addresses.push_back(pool.Allocate(kContext, 0, i % 20 == 0 ? 3 << 20 : 5000).block.address);
  }
  std::size_t i = 0;
  while (state.KeepRunning()) benchmark::DoNotOptimize(pool.Find(addresses[(i += 7919) % addresses.size()] + 100));
}
BENCHMARK(BM_Find);

}  // namespace
}  // namespace cuheap
