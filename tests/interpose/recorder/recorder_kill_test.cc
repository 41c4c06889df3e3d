// The promise of the journal: after a kill at any instant, the exact live set, the stacks, the totals and the last
// events.
//
// A child allocates and frees through the recorder from several threads, which come and go, and keeps its own books in
// memory shared with this test. It is killed at random; what the journal says must fit the books. Only what was under
// way at that instant, one operation a thread, may be seen as done or as not done.
//
// CUHEAP_KILL_ROUNDS: how many kills (40 by default).
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "tests/interpose/recorder/journal_view.h"
#include "tests/interpose/recorder/recorded_child.h"
#include "tests/interpose/stacks/capture_library.h"

namespace cuheap {
namespace {

using journal::EventType;
using testing::JournalView;
using testing::Require;
using testing::TemporaryDirectory;

constexpr int kMaxThreads = 6;
constexpr int kSlots = 200;
constexpr unsigned kMaxStackDepth = 20;

enum State : std::uint32_t { kFree, kAllocating, kLive, kFreeing };

struct Slot {
  std::atomic<std::uint32_t> state;
  std::atomic<std::uint32_t> depth;  // calls between the worker and the allocation
  std::atomic<std::uint64_t> bytes;
};

struct Worker {
  Slot slots[kSlots];
  std::atomic<std::uint64_t> completed;  // operations; the number of each goes along as its "stream"
  std::atomic<std::uint64_t> last_ns;    // when the last one was done
};

struct Books {
  Worker workers[kMaxThreads];
  std::atomic<std::uint64_t> live;  // one thread only: bytes as the books say, and their peak
  std::atomic<std::uint64_t> peak;
  std::atomic<std::uint32_t> ready;
};

std::uint64_t NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

std::uint64_t AddressOf(int worker, int slot) { return 0x7F0000000000 + worker * 0x10000000ull + slot * 512; }

[[gnu::noinline]] std::uint32_t AllocateBelow(unsigned depth, std::uint64_t address, std::uint64_t bytes,
                                              std::uint64_t number) {
  const std::uint32_t id =
      depth == 0 ? CaptureLibraryAllocate(address, bytes, number) : AllocateBelow(depth - 1, address, bytes, number);
  asm volatile("" : : : "memory");  // no tail call
  return id;
}

void Operate(Books& books, int worker_index, std::mt19937_64& random) {
  Worker& worker = books.workers[worker_index];
  const int slot_index = static_cast<int>(random() % kSlots);
  Slot& slot = worker.slots[slot_index];
  const std::uint64_t address = AddressOf(worker_index, slot_index);
  const std::uint64_t number = worker.completed.load() + 1;
  if (slot.state.load() == kLive) {
    slot.state.store(kFreeing);
    CaptureLibraryFree(address, number);
    books.live.fetch_sub(slot.bytes.load());
    slot.state.store(kFree);
  } else {
    slot.bytes.store(1 + random() % 100000);
    slot.depth.store(static_cast<std::uint32_t>(random() % kMaxStackDepth));
    slot.state.store(kAllocating);
    AllocateBelow(slot.depth.load(), address, slot.bytes.load(), number);
    const std::uint64_t live = books.live.fetch_add(slot.bytes.load()) + slot.bytes.load();
    if (live > books.peak.load()) books.peak.store(live);
    slot.state.store(kLive);
  }
  worker.last_ns.store(NowNs());
  worker.completed.store(number);
}

// Threads that end after some operations and are followed by new ones.
void Work(Books& books, int worker, std::uint64_t seed) {
  for (std::uint64_t life = 0;; ++life) {
    std::thread([&] {
      std::mt19937_64 random(seed * 7919 + life * kMaxThreads + worker);
      for (std::uint64_t i = random() % 400; i > 0; --i) Operate(books, worker, random);
    }).join();
  }
}

void Child(Books& books, const TemporaryDirectory& directory, int threads, std::uint64_t seed, std::uint64_t cap) {
  Require(CaptureLibraryStartWithCap(directory.path().c_str(), cap), "Start");
  books.ready.store(1);
  std::vector<std::thread> workers;
  for (int t = 1; t < threads; ++t) workers.emplace_back([&books, t, seed] { Work(books, t, seed); });
  Work(books, 0, seed);
}

struct InFlight {
  std::uint64_t operations = 0;
  std::uint64_t bytes = 0;
};

// Every block of the books against the live set.
InFlight CheckLiveSet(Books& books, const JournalView& view, int threads) {
  InFlight in_flight;
  std::map<std::uint64_t, testing::ViewBlock> live;
  for (const auto& block : view.live) EXPECT_TRUE(live.emplace(block.address, block).second) << "twice in the live set";
  std::map<unsigned, std::size_t> size_at_depth;
  std::size_t explained = 0;
  for (int w = 0; w < threads; ++w) {
    for (int s = 0; s < kSlots; ++s) {
      const Slot& slot = books.workers[w].slots[s];
      const auto found = live.find(AddressOf(w, s));
      const auto state = static_cast<State>(slot.state.load());
      if (found != live.end()) ++explained;
      if (state == kAllocating || state == kFreeing) {
        ++in_flight.operations;
        in_flight.bytes += slot.bytes.load();
        continue;
      }
      EXPECT_EQ(found != live.end(), state == kLive) << "worker " << w << " slot " << s;
      if (found == live.end() || state != kLive) continue;
      EXPECT_EQ(found->second.bytes, slot.bytes.load());
      const auto stack = view.stacks.find(found->second.stack);
      EXPECT_NE(stack, view.stacks.end()) << "a live block without its stack";
      if (stack == view.stacks.end()) continue;
      EXPECT_EQ(stack->second.flags, 0);
      const auto [known, fresh] = size_at_depth.emplace(slot.depth.load(), stack->second.words.size());
      EXPECT_EQ(known->second, stack->second.words.size()) << "stacks of equal depth differ in length";
    }
  }
  EXPECT_EQ(explained, live.size()) << "blocks that nobody allocated";
  if (!size_at_depth.empty()) {
    const std::size_t base = size_at_depth.begin()->second - size_at_depth.begin()->first;
    for (const auto& [depth, size] : size_at_depth) EXPECT_EQ(size, base + depth);
  }
  return in_flight;
}

void CheckTotals(Books& books, const JournalView& view, const InFlight& in_flight, int threads) {
  const auto& device = view.header().devices[0];
  std::uint64_t sum = 0;
  for (const auto& block : view.live) sum += block.bytes;
  const std::uint64_t told = device.live_bytes.load();
  EXPECT_LE(told > sum ? told - sum : sum - told, in_flight.bytes) << "totals differ by more than what was under way";
  if (threads == 1) {
    EXPECT_GE(device.peak_bytes.load(), books.peak.load());
    EXPECT_LE(device.peak_bytes.load(), books.peak.load() + in_flight.bytes);
  }
  std::uint64_t completed = 0;
  for (int w = 0; w < threads; ++w) completed += books.workers[w].completed.load();
  const std::uint64_t counted = view.counter(journal::Counter::kAllocations) + view.counter(journal::Counter::kFrees);
  // Between the hook's return and the books' own count lies one more operation of each thread.
  EXPECT_GE(counted, completed);
  EXPECT_LE(counted, completed + static_cast<std::uint64_t>(threads));
  const std::uint64_t lost = view.counter(journal::Counter::kEventsOverwritten);
  EXPECT_EQ(view.counter(journal::Counter::kEventsDropped), 0u);
  EXPECT_GE(view.events.size() + lost, completed);
  EXPECT_LE(view.events.size(), completed + static_cast<std::uint64_t>(threads));
}

// The last completed operation of each worker is there, unless the cap made room for newer ones of others meanwhile.
void CheckLastEvents(Books& books, const JournalView& view, int threads) {
  for (int w = 0; w < threads; ++w) {
    const Worker& worker = books.workers[w];
    if (worker.completed.load() == 0) continue;
    bool found = false;
    std::uint64_t newest = 0, newer = 0;
    for (const auto& event : view.events) {
      if (event.time_ns > worker.last_ns.load()) ++newer;
      if (event.address - AddressOf(w, 0) >= kSlots * 512) continue;
      found = found || event.stream == worker.completed.load();
      EXPECT_GT(event.stream, newest) << "the events of a worker are not in order";
      newest = event.stream;
    }
    EXPECT_LE(newest, worker.completed.load() + 1);
    if (view.counter(journal::Counter::kEventsOverwritten) == 0) {
      EXPECT_TRUE(found) << "the last completed operation of worker " << w << " is missing";
    } else {
      EXPECT_TRUE(found || newer > 200) << "worker " << w << ": its last operation gave way to only " << newer;
    }
  }
}

void KillOnce(std::uint64_t seed) {
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const int threads = seed % 3 == 0 ? 1 : 2 + static_cast<int>(random() % (kMaxThreads - 1));
  const std::uint64_t cap = seed % 2 == 0 ? 64u << 20 : 640u << 10;
  TemporaryDirectory directory;
  void* memory = mmap(nullptr, sizeof(Books), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  Books& books = *static_cast<Books*>(memory);
  const pid_t child = testing::StartChild([&] { Child(books, directory, threads, seed, cap); });
  while (books.ready.load() == 0 && waitpid(child, nullptr, WNOHANG) == 0) usleep(200);
  usleep(static_cast<useconds_t>(random() % 40000));
  ASSERT_EQ(kill(child, SIGKILL), 0);
  const int status = testing::WaitFor(child);
  ASSERT_TRUE(WIFSIGNALED(status));
  const auto journals = directory.Journals();
  ASSERT_EQ(journals.size(), 1u);
  JournalView view(journals[0]);
  ASSERT_EQ(view.problem(), "");
  EXPECT_LE(view.odd_slots, static_cast<std::uint64_t>(threads));
  const InFlight in_flight = CheckLiveSet(books, view, threads);
  EXPECT_LE(in_flight.operations, static_cast<std::uint64_t>(threads));
  CheckTotals(books, view, in_flight, threads);
  CheckLastEvents(books, view, threads);
  munmap(memory, sizeof(Books));
}

TEST(RecorderKillTest, WhatAKilledProcessLeavesIsTrue) {
  const char* rounds_text = getenv("CUHEAP_KILL_ROUNDS");
  const int rounds = rounds_text == nullptr ? 40 : atoi(rounds_text);
  for (int round = 1; round <= rounds && !HasFailure(); ++round) KillOnce(static_cast<std::uint64_t>(round));
}

}  // namespace
}  // namespace cuheap
