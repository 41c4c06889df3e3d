// Random legal programs compute the same bytes in every order; with waits left out, some compute others.
//
// A program works on blocks of words, in streams of every kind. Before each operation it waits, with events, for
// exactly those earlier accesses of its blocks that nothing orders yet: happens-before is tracked with one clock a
// stream. What the bytes must be is computed by doing the same operations in program order on host vectors.
#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/tools/simcuda/simulated.h"

namespace cuheap::testing {
namespace {

constexpr int kStreams = 5;  // 0: legacy; 1, 2: blocking; 3, 4: non-blocking
constexpr int kBlocks = 6;
constexpr size_t kWords = 300;
constexpr int kOperations = 150;

using Clock = std::array<int, kStreams>;  // for each stream, how many of its operations have happened before

struct Access {
  int stream = 0;
  int index = 0;  // the stream's clock just after it
  CUevent event = nullptr;
};

struct TrackedBlock {
  CUdeviceptr address = 0;
  bool pinned = false;
  std::vector<uint32_t> expected = std::vector<uint32_t>(kWords);
  std::vector<Access> writes, reads;
};

class Program {
 public:
  Program(uint64_t seed, bool forget_waits) : random_(seed), forgotten_(seed), forget_waits_(forget_waits) {
    UseDevice();
    streams_ = {nullptr, MakeStream(CU_STREAM_DEFAULT), MakeStream(CU_STREAM_DEFAULT), MakeStream(), MakeStream()};
    for (TrackedBlock& block : blocks_) {
      block.pinned = &block == &blocks_.back();
      block.address =
          block.pinned ? reinterpret_cast<CUdeviceptr>(AllocatePinned<uint32_t>(kWords)) : Allocate(kWords * 4);
      if (block.pinned) std::memset(reinterpret_cast<void*>(block.address), 0, kWords * 4);
    }
    for (TrackedBlock& block : blocks_) {
      if (block.pinned) continue;
      EXPECT_CUDA(cuMemsetD32(block.address, 0, kWords));
    }
    EXPECT_CUDA(cuCtxSynchronize());
  }

  bool Run() {
    for (int i = 0; i < kOperations; ++i) Step();
    EXPECT_CUDA(cuCtxSynchronize());
    bool right = true;
    for (TrackedBlock& block : blocks_) {
      std::vector<uint32_t> words(kWords);
      EXPECT_CUDA(cuMemcpy(reinterpret_cast<CUdeviceptr>(words.data()), block.address, kWords * 4));
      right = right && words == block.expected;
    }
    return right;
  }

 private:
  int Below(int limit) { return static_cast<int>(random_() % static_cast<uint64_t>(limit)); }

  static bool Blocking(int stream) { return stream == 1 || stream == 2; }

  void WaitFor(int stream, const Access& access) {
    if (clocks_[stream][access.stream] >= access.index) return;
    if (!forget_waits_ || forgotten_() % 3 != 0) {
      EXPECT_CUDA(cuStreamWaitEvent(streams_[stream], access.event, 0));
    }
    // The clock of that operation is at least this; what else it knew is not needed.
    clocks_[stream][access.stream] = access.index;
  }

  // Orders an operation in `stream` after the accesses it conflicts with, and adds what the default streams order.
  void Before(int stream, const std::vector<TrackedBlock*>& read, TrackedBlock* written) {
    Join(stream);
    for (TrackedBlock* block : read) {
      for (const Access& access : block->writes) WaitFor(stream, access);
    }
    for (const Access& access : written->writes) WaitFor(stream, access);
    for (const Access& access : written->reads) WaitFor(stream, access);
  }

  void Join(int stream) {
    const auto join = [&](int other) {
      for (int i = 0; i < kStreams; ++i) clocks_[stream][i] = std::max(clocks_[stream][i], clocks_[other][i]);
    };
    if (stream == 0) join(1), join(2);
    if (Blocking(stream)) join(0);
  }

  void After(int stream, const std::vector<TrackedBlock*>& read, TrackedBlock* written) {
    Access access{stream, ++clocks_[stream][stream], MakeEvent()};
    EXPECT_CUDA(cuEventRecord(access.event, streams_[stream]));
    for (TrackedBlock* block : read) block->reads.push_back(access);
    written->writes = {access};
    written->reads.clear();
  }

  void Step() {
    TrackedBlock &target = blocks_[Below(kBlocks)], &a = blocks_[Below(kBlocks)], &b = blocks_[Below(kBlocks)];
    const int stream = Below(kStreams);
    const auto value = static_cast<uint32_t>(random_());
    const uint64_t words = kWords, bytes = kWords * 4;
    CUstream handle = streams_[stream];
    switch (Below(6)) {
      case 0:
        Before(stream, {}, &target);
        EXPECT_CUDA(cuMemsetD32Async(target.address, value, words, handle));
        std::fill(target.expected.begin(), target.expected.end(), value);
        return After(stream, {}, &target);
      case 1:
        Before(stream, {&target}, &target);
        EXPECT_CUDA(Launch(handle, "simcuda_scale_add", target.address, words, value | 1, value >> 7));
        for (uint32_t& word : target.expected) word = word * (value | 1) + (value >> 7);
        return After(stream, {}, &target);
      case 2:
        Before(stream, {&a, &b}, &target);
        EXPECT_CUDA(Launch(handle, "simcuda_add", target.address, a.address, b.address, words));
        for (size_t i = 0; i < kWords; ++i) target.expected[i] = a.expected[i] + b.expected[i];
        return After(stream, {&a, &b}, &target);
      case 3:
        Before(stream, {&a}, &target);
        // Between pinned host memory and itself a copy is synchronous; everywhere else it is queued.
        EXPECT_CUDA(cuMemcpyAsync(target.address, a.address, bytes, handle));
        target.expected = a.expected;
        return After(stream, {&a}, &target);
      case 4: {
        Before(stream, {}, &target);
        std::vector<uint32_t> source(kWords, value);
        EXPECT_CUDA(cuMemcpyAsync(target.address, reinterpret_cast<CUdeviceptr>(source.data()), bytes, handle));
        target.expected = source;
        return After(stream, {}, &target);
      }
      default:
        return Temporary(stream, &a, &target);
    }
  }

  // A block of the pool that lives for one detour: a -> temporary -> target.
  void Temporary(int stream, TrackedBlock* a, TrackedBlock* target) {
    CUdeviceptr temporary = 0;
    Before(stream, {a}, target);
    EXPECT_CUDA(cuMemAllocAsync(&temporary, kWords * 4, streams_[stream]));
    EXPECT_CUDA(cuMemcpyAsync(temporary, a->address, kWords * 4, streams_[stream]));
    EXPECT_CUDA(Launch(streams_[stream], "simcuda_scale_add", temporary, uint64_t{kWords}, 3u, 1u));
    EXPECT_CUDA(cuMemcpyAsync(target->address, temporary, kWords * 4, streams_[stream]));
    EXPECT_CUDA(cuMemFreeAsync(temporary, streams_[stream]));
    const std::vector<uint32_t> source = a->expected;
    for (size_t i = 0; i < kWords; ++i) target->expected[i] = source[i] * 3 + 1;
    After(stream, {a}, target);
  }

  std::mt19937_64 random_;
  std::mt19937_64 forgotten_;
  bool forget_waits_;
  std::array<CUstream, kStreams> streams_{};
  std::array<Clock, kStreams> clocks_{};
  std::array<TrackedBlock, kBlocks> blocks_;
};

// Whether the program's bytes are right, as an exit status.
int RunProgram(const char* order, int seed, bool forget_waits) {
  return RunSimulated({{"SIMCUDA_ORDER", order}, {"SIMCUDA_SEED", std::to_string(seed)}}, [=] {
    if (!Program(static_cast<uint64_t>(seed), forget_waits).Run()) std::_Exit(3);
  });
}

constexpr int kSeeds = 60;

TEST(RandomProgramsTest, LegalProgramsComputeTheSameInEveryOrder) {
  for (const char* order : {"late", "random", "eager"}) {
    for (int seed = 1; seed <= kSeeds; ++seed)
      EXPECT_EQ(RunProgram(order, seed, false), 0) << order << " seed " << seed;
  }
}

TEST(RandomProgramsTest, MissingWaitsAreSeenInSomeOrders) {
  int late = 0, random = 0, eager = 0;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    late += RunProgram("late", seed, true) != 0 ? 1 : 0;
    random += RunProgram("random", seed, true) != 0 ? 1 : 0;
    eager += RunProgram("eager", seed, true) != 0 ? 1 : 0;
  }
  EXPECT_GT(late, kSeeds / 10);
  EXPECT_GT(random, kSeeds / 10);
  EXPECT_EQ(eager, 0);  // there each piece runs at once, so nothing can be missed
}

}  // namespace
}  // namespace cuheap::testing
