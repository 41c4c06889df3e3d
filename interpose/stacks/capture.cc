// Stacks as recorder.h offers them: walk, then intern into the journal of the active recorder.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>

#include "interpose/python/python_stacks.h"
#include "interpose/recorder/own_memory.h"
#include "interpose/recorder/recorder.h"
#include "interpose/recorder/room_pool.h"
#include "interpose/recorder/state.h"
#include "interpose/stacks/loaded_objects.h"
#include "interpose/stacks/registers.h"
#include "interpose/stacks/stack_table.h"
#include "interpose/stacks/unwinder.h"

namespace cuheap::recorder {
namespace {

// Deep enough for every way through the CUDA libraries down to who called them.
constexpr unsigned kCallerDepth = 24;

// What a walk writes, and what putting a new stack together needs; both too large for the stacks of some threads.
struct Words {
  std::uint64_t words[stacks::kMaxWords];
};
struct Scratch {
  std::mutex mutex;
  std::uint64_t addresses[stacks::kMaxDepth];
  std::uint64_t stack_pointers[stacks::kMaxDepth];
  std::uint64_t python_words[python::kMaxPythonDepth];
  std::uint64_t anchors[python::kMaxPythonDepth];
  std::uint16_t after[python::kMaxPythonDepth];
};

// The table of one recorder's stacks. A forked child with a journal of its own makes a new one.
struct OwnedTable {
  explicit OwnedTable(Recorder* recorder) : owner(recorder), table(recorder), python(recorder) {}
  Recorder* owner;
  stacks::StackTable table;
  python::PythonStacks python;
  Scratch scratch;
};

struct Walked {
  stacks::WalkResult native;
  python::PythonWalk python;
};

struct OwnRange {
  std::atomic<std::uint64_t> begin = 0;
  std::atomic<std::uint64_t> end = 0;
};

constinit std::atomic<OwnedTable*> g_table = nullptr;
constinit std::atomic<bool> g_enabled = true;
constinit std::atomic<unsigned> g_max_depth = 64;
constinit std::atomic<unsigned> g_max_python_depth = 0;
constinit std::atomic<std::uint64_t> g_python_address = 0;
constinit std::atomic<std::uint32_t> g_generation = 1;
constinit OwnRange g_own;
constinit RoomPool<Words> g_words;
constinit std::atomic<unsigned> g_homes = 0;
[[gnu::tls_model("initial-exec")]] constinit thread_local unsigned t_home = 0;  // 0: none yet

unsigned Home() {
  if (t_home == 0) [[unlikely]] {
    t_home = g_homes.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  return t_home;
}

// No lock is taken for making it, since a fork might catch it locked: of two threads the second gives its own back.
OwnedTable* TableOf(Recorder& recorder) {
  OwnedTable* known = g_table.load(std::memory_order_acquire);
  if (known != nullptr && known->owner == &recorder) [[likely]] {
    return known;
  }
  void* memory = MapMemory(sizeof(OwnedTable));
  if (memory == nullptr) return nullptr;
  auto* fresh = new (memory) OwnedTable(&recorder);
  if (g_table.compare_exchange_strong(known, fresh, std::memory_order_acq_rel)) {
    if (!stacks::HasLockFreeFinder()) {
      recorder.Note(journal::NoteCode::kSelfCheck,
                    "this C library has no _dl_find_object: the loader's list lock is taken when new code is seen", 0,
                    0);
    }
    const std::uint64_t python = g_python_address.load(std::memory_order_relaxed);
    if (python != 0 && g_max_python_depth.load(std::memory_order_relaxed) != 0) fresh->python.LookAt(python);
    return fresh;
  }
  UnmapMemory(memory, sizeof(OwnedTable));
  return known->owner == &recorder ? known : nullptr;
}

// Where this library lies: its own frames are cut off.
void FindOwnRange() {
  if (g_own.end.load(std::memory_order_acquire) != 0) return;
  stacks::LoadedObject self;
  if (!stacks::FindLoadedObject(reinterpret_cast<std::uint64_t>(&FindOwnRange), self)) return;
  g_own.begin.store(self.begin, std::memory_order_relaxed);
  g_own.end.store(self.end, std::memory_order_release);
}

std::uint16_t FlagsOf(const Walked& walked) {
  const auto flag = [](bool set, std::uint16_t value) { return set ? unsigned{value} : 0u; };
  return static_cast<std::uint16_t>(flag(walked.native.truncated, journal::kStackTruncated) |
                                    flag(walked.native.failed, journal::kStackUnwindFailed) |
                                    flag(walked.python.truncated, journal::kStackPythonTruncated) |
                                    flag(walked.python.unreadable, journal::kStackPythonUnreadable) |
                                    (static_cast<unsigned>(walked.python.none) << journal::kNoPythonShift));
}

// A stack that is not known: finds where its Python frames belong, for which both walks are made again with what only
// this needs, then interns it.
stacks::InternedStack AddStack(OwnedTable& owned, const stacks::Registers& start, const stacks::StackKey& key,
                               const Walked& walked, std::uint32_t generation) {
  Scratch& scratch = owned.scratch;
  std::lock_guard<std::mutex> lock(scratch.mutex);
  stacks::PythonPlaces places{scratch.after, false};
  const unsigned python_depth = key.depth - key.native_depth;
  if (python_depth > 0) {
    const stacks::WalkResult native =
        stacks::WalkStack(start, g_own.begin.load(std::memory_order_relaxed), g_own.end.load(std::memory_order_acquire),
                          scratch.addresses, key.native_depth, scratch.stack_pointers);
    const python::PythonWalk python =
        owned.python.Walk(generation, scratch.python_words, python_depth, scratch.anchors);
    const bool same = native.depth == key.native_depth && python.depth == python_depth;
    const python::NativeFrames native_frames{key.words, scratch.stack_pointers, key.native_depth,
                                             !walked.native.truncated && !walked.native.failed};
    const python::PythonFrames python_frames{scratch.anchors, python_depth,
                                             !walked.python.truncated && !walked.python.unreadable};
    places.unplaced = !same || !owned.python.Place(native_frames, python_frames, scratch.after);
    if (!same) std::fill_n(scratch.after, python_depth, static_cast<std::uint16_t>(key.native_depth));
  }
  return owned.table.Add(key, places, generation);
}

}  // namespace

void ConfigureStacks(const StackOptions& options) {
  g_max_depth.store(options.max_depth < stacks::kMaxDepth ? options.max_depth : stacks::kMaxDepth,
                    std::memory_order_relaxed);
  const unsigned python_depth = options.python ? options.max_python_depth : 0;
  g_max_python_depth.store(std::min(python_depth, python::kMaxPythonDepth), std::memory_order_relaxed);
  g_python_address.store(reinterpret_cast<std::uint64_t>(options.python_function), std::memory_order_relaxed);
  g_enabled.store(options.enabled && options.max_depth > 0, std::memory_order_relaxed);
}

CapturedStack CaptureStack(bool need_caller) {
  CapturedStack captured;
  const bool enabled = g_enabled.load(std::memory_order_relaxed);
  if (!enabled && !need_caller) return captured;
  RecordingScope scope;
  Recorder* recorder = scope.recorder();
  if (recorder == nullptr) return captured;
  OwnedTable* owned = TableOf(*recorder);
  const RoomPool<Words>::Loan loan(g_words, Home());
  if (owned == nullptr || loan.get() == nullptr) {
    recorder->Count(journal::Counter::kStacksFailed);
    return captured;
  }
  FindOwnRange();
  std::uint64_t* const words = loan.get()->words;
  // Before the walk: if an object goes while we walk, what we found is not kept as true for the time after.
  const std::uint32_t generation = g_generation.load(std::memory_order_acquire);
  const stacks::Registers start = stacks::CurrentRegisters();
  Walked walked;
  walked.native =
      stacks::WalkStack(start, g_own.begin.load(std::memory_order_relaxed), g_own.end.load(std::memory_order_acquire),
                        words, enabled ? g_max_depth.load(std::memory_order_relaxed) : kCallerDepth);
  if (!enabled) {
    captured.caller_is_pytorch = owned->table.CallerIsPyTorch(words, walked.native.depth, generation);
    return captured;
  }
  const unsigned max_python = g_max_python_depth.load(std::memory_order_relaxed);
  for (bool again = true; again;) {
    again = false;
    if (max_python != 0) walked.python = owned->python.Walk(generation, words + walked.native.depth, max_python);
    if (walked.native.depth == 0 && walked.python.depth == 0) {
      recorder->Count(journal::Counter::kStacksFailed);
      return captured;
    }
    const stacks::StackKey key{words, walked.native.depth, walked.native.depth + walked.python.depth, FlagsOf(walked)};
    stacks::InternedStack interned;
    if (!owned->table.Find(key, generation, interned)) {
      interned = AddStack(*owned, start, key, walked, generation);
      if (max_python != 0 && interned.new_modules && !owned->python.settled()) {
        for (unsigned i = 0; i < walked.native.depth; ++i) owned->python.LookAt(words[i] - 1);
        again = owned->python.active();  // this very stack has Python frames
      }
    }
    captured.id = interned.id;
    captured.caller_is_pytorch = interned.caller_is_pytorch;
  }
  return captured;
}

void ModulesChanged() {
  g_generation.fetch_add(1, std::memory_order_acq_rel);
  stacks::ForgetFrameRules();
}

}  // namespace cuheap::recorder
