// Stacks as recorder.h offers them: walk, then intern into the journal of the active recorder.
#include <atomic>
#include <new>

#include "interpose/recorder/own_memory.h"
#include "interpose/recorder/recorder.h"
#include "interpose/recorder/state.h"
#include "interpose/stacks/loaded_objects.h"
#include "interpose/stacks/registers.h"
#include "interpose/stacks/stack_table.h"
#include "interpose/stacks/unwinder.h"

namespace cuheap::recorder {
namespace {

// Deep enough for every way through the CUDA libraries down to who called them.
constexpr unsigned kCallerDepth = 24;

// The table of one recorder's stacks. A forked child with a journal of its own makes a new one.
struct OwnedTable {
  Recorder* owner;
  stacks::StackTable table;
};

struct OwnRange {
  std::atomic<std::uint64_t> begin = 0;
  std::atomic<std::uint64_t> end = 0;
};

constinit std::atomic<OwnedTable*> g_table = nullptr;
constinit std::atomic<bool> g_enabled = true;
constinit std::atomic<unsigned> g_max_depth = 64;
constinit std::atomic<std::uint32_t> g_generation = 1;
constinit OwnRange g_own;

// No lock is taken for making it, since a fork might catch it locked: of two threads the second gives its own back.
stacks::StackTable* TableOf(Recorder& recorder) {
  OwnedTable* known = g_table.load(std::memory_order_acquire);
  if (known != nullptr && known->owner == &recorder) [[likely]] {
    return &known->table;
  }
  void* memory = MapMemory(sizeof(OwnedTable));
  if (memory == nullptr) return nullptr;
  auto* fresh = new (memory) OwnedTable{&recorder, stacks::StackTable(&recorder)};
  if (g_table.compare_exchange_strong(known, fresh, std::memory_order_acq_rel)) {
    if (!stacks::HasLockFreeFinder()) {
      recorder.Note(journal::NoteCode::kSelfCheck,
                    "this C library has no _dl_find_object: the loader's list lock is taken when new code is seen", 0,
                    0);
    }
    return &fresh->table;
  }
  UnmapMemory(memory, sizeof(OwnedTable));
  return known->owner == &recorder ? &known->table : nullptr;
}

// Where this library lies: its own frames are cut off.
void FindOwnRange() {
  if (g_own.end.load(std::memory_order_acquire) != 0) return;
  stacks::LoadedObject self;
  if (!stacks::FindLoadedObject(reinterpret_cast<std::uint64_t>(&FindOwnRange), self)) return;
  g_own.begin.store(self.begin, std::memory_order_relaxed);
  g_own.end.store(self.end, std::memory_order_release);
}

}  // namespace

void ConfigureStacks(const StackOptions& options) {
  g_max_depth.store(options.max_depth < stacks::kMaxDepth ? options.max_depth : stacks::kMaxDepth,
                    std::memory_order_relaxed);
  g_enabled.store(options.enabled && options.max_depth > 0, std::memory_order_relaxed);
}

CapturedStack CaptureStack(bool need_caller) {
  CapturedStack captured;
  const bool enabled = g_enabled.load(std::memory_order_relaxed);
  if (!enabled && !need_caller) return captured;
  RecordingScope scope;
  Recorder* recorder = scope.recorder();
  if (recorder == nullptr) return captured;
  stacks::StackTable* table = TableOf(*recorder);
  if (table == nullptr) {
    recorder->Count(journal::Counter::kStacksFailed);
    return captured;
  }
  FindOwnRange();
  std::uint64_t addresses[stacks::kMaxDepth];
  // Before the walk: if an object goes while we walk, what we found is not kept as true for the time after.
  const std::uint32_t generation = g_generation.load(std::memory_order_acquire);
  const stacks::WalkResult walk =
      stacks::WalkStack(stacks::CurrentRegisters(), g_own.begin.load(std::memory_order_relaxed),
                        g_own.end.load(std::memory_order_acquire), addresses,
                        enabled ? g_max_depth.load(std::memory_order_relaxed) : kCallerDepth);
  if (!enabled) {
    captured.caller_is_pytorch = table->CallerIsPyTorch(addresses, walk.depth, generation);
    return captured;
  }
  if (walk.depth == 0) {
    recorder->Count(journal::Counter::kStacksFailed);
    return captured;
  }
  const auto flags = static_cast<std::uint16_t>((walk.truncated ? journal::kStackTruncated : 0) |
                                                (walk.failed ? journal::kStackUnwindFailed : 0));
  const stacks::InternedStack interned = table->Intern(addresses, walk.depth, flags, generation);
  captured.id = interned.id;
  captured.caller_is_pytorch = interned.caller_is_pytorch;
  return captured;
}

void ModulesChanged() {
  g_generation.fetch_add(1, std::memory_order_acq_rel);
  stacks::ForgetFrameRules();
}

}  // namespace cuheap::recorder
