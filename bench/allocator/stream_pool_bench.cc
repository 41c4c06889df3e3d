// What the stream-ordered pool itself costs: a pair of allocation and free, the driver left out (FakeStreamMemory is
// asked only while warming up).
#include <benchmark/benchmark.h>

#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "allocator/fake_stream_memory.h"
#include "allocator/stream_pool.h"

namespace cuheap {
namespace {

constexpr StreamRef kStream{1, 0x11, 0xC1, StreamKind::kOrdinary};
constexpr std::size_t kGiB = std::size_t{1} << 30;

// The same size over and over, one thread.
void BM_StreamSameSize(benchmark::State& state) {
  FakeStreamMemory memory({.capacity = 64 * kGiB});
  StreamPool pool(memory, nullptr, {});
  const StreamPoolId id = pool.AddPool(0, 0, /*expects_much=*/true);
  const auto bytes = static_cast<std::size_t>(state.range(0));
  while (state.KeepRunning()) pool.Free(pool.Allocate(id, kStream, bytes).block.address, &kStream);
  state.counters["driver_calls"] = static_cast<double>(memory.calls());
}
BENCHMARK(BM_StreamSameSize)->Arg(512)->Arg(100'000)->Arg(4 << 20);

// 1,024 slots, log-uniform sizes from 512 B to 64 MiB: each iteration frees one slot and fills it anew.
void BM_StreamRandomSizes(benchmark::State& state) {
  FakeStreamMemory memory({.capacity = 1024 * kGiB});
  StreamPool pool(memory, nullptr, {});
  const StreamPoolId id = pool.AddPool(0, 0, /*expects_much=*/true);
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponent(9, 26);
  std::vector<std::size_t> sizes(1 << 16);
  for (std::size_t& size : sizes) size = static_cast<std::size_t>(std::exp2(exponent(random)));
  std::vector<DeviceAddress> slots(1024);
  std::size_t next = 0;
  const auto turn = [&] {
    DeviceAddress& slot = slots[(next * 389) % slots.size()];
    if (slot != 0) pool.Free(slot, &kStream);
    slot = pool.Allocate(id, kStream, sizes[next++ % sizes.size()]).block.address;
  };
  for (int i = 0; i < 200'000; ++i) turn();
  const std::uint64_t calls = memory.calls();
  while (state.KeepRunning()) turn();
  const StreamPoolStats stats = pool.Stats(id);
  state.counters["driver_calls"] = static_cast<double>(memory.calls() - calls);
  state.counters["utilisation"] = static_cast<double>(stats.used_high) / static_cast<double>(stats.reserved_high);
}
BENCHMARK(BM_StreamRandomSizes);

// Threads on one pool, each with a stream of its own.
class SharedStreamPool : public benchmark::Fixture {
 public:
  void SetUp(const benchmark::State& state) override {
    if (state.thread_index() != 0) return;
    memory_ = std::make_unique<FakeStreamMemory>(FakeStreamMemory::Options{.capacity = 64 * kGiB});
    pool_ = std::make_unique<StreamPool>(*memory_, nullptr, StreamPoolOptions{});
    id_ = pool_->AddPool(0, 0, /*expects_much=*/true);
  }
  void TearDown(const benchmark::State& state) override {
    if (state.thread_index() == 0) pool_.reset();
  }

 protected:
  std::unique_ptr<FakeStreamMemory> memory_;
  std::unique_ptr<StreamPool> pool_;
  StreamPoolId id_ = 0;
};

BENCHMARK_DEFINE_F(SharedStreamPool, SameSize)(benchmark::State& state) {
  const StreamRef stream{static_cast<StreamId>(state.thread_index() + 1), 0x11, 0xC1, StreamKind::kOrdinary};
  while (state.KeepRunning()) pool_->Free(pool_->Allocate(id_, stream, 4096).block.address, &stream);
}
BENCHMARK_REGISTER_F(SharedStreamPool, SameSize)->Threads(1)->Threads(2)->Threads(4);

}  // namespace
}  // namespace cuheap
