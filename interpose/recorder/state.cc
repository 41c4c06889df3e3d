#include "interpose/recorder/state.h"

#include <pthread.h>

#include <new>

#include "interpose/recorder/process_facts.h"
#include "interpose/recorder/thread_locals.h"

// Note [Threads that end]
//
// A thread's state is reached by a plain thread-local pointer with constant initialisation: no constructor, no
// destructor, valid until the thread is really gone. A pthread key, whose destructor runs late in the teardown, tells
// that the thread ends. From then on the pointer leads to nowhere (kEnded) and is never set again: whatever later
// destructors of the program free goes through the shared chain, under its lock, with the thread's index, which stays.
// So teardown creates nothing that nobody would release.

namespace cuheap::recorder {
namespace {

// A state for threads that have none: ended, or without memory for one.
constinit ThreadState g_no_state;

pthread_key_t g_thread_key;
std::atomic<bool> g_thread_key_made = false;

}  // namespace

// In static TLS: a preload library is there from the start, and the dynamic model may call malloc at first use.
[[gnu::tls_model("initial-exec")]] constinit thread_local ThreadLocals t_locals;
constinit std::atomic<Recorder*> g_recorder = nullptr;

Recorder* ActiveRecorder() {
  Recorder* recorder = g_recorder.load(std::memory_order_acquire);
  if (recorder == nullptr || recorder->alive->load(std::memory_order_relaxed) == 0) return nullptr;
  return recorder;
}

RecordingScope::RecordingScope() {
  Recorder* recorder = ActiveRecorder();
  if (recorder == nullptr) return;
  if (t_locals.recording) {
    recorder->Count(journal::Counter::kReentries);
    return;
  }
  t_locals.recording = true;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  saved_errno_ = errno;
  recorder_ = recorder;
}

RecordingScope::~RecordingScope() {
  if (recorder_ == nullptr) return;
  errno = saved_errno_;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  t_locals.recording = false;
}

namespace {

void ThreadEnds(void* argument) {
  constexpr std::uint32_t kRounds = 2;  // of the four that POSIX promises: let the program's own destructors go first
  auto* state = static_cast<ThreadState*>(argument);
  RecordingScope scope;
  Recorder* recorder = scope.recorder();
  if (recorder == nullptr || t_locals.owner != recorder || t_locals.state != state) return;
  if (++state->destructor_rounds < kRounds && pthread_setspecific(g_thread_key, state) == 0) return;
  if (state->record != nullptr) state->record->last_ns.store(MonotonicNs(), std::memory_order_release);
  t_locals.state = &g_no_state;
  if (state->chain != nullptr) recorder->chains.Release(state->chain);
  std::lock_guard<std::mutex> lock(recorder->thread_mutex);
  *state = ThreadState{};
  state->next_free = recorder->free_threads;
  recorder->free_threads = state;
}

ThreadState* NewState(Recorder& recorder) {
  {
    std::lock_guard<std::mutex> lock(recorder.thread_mutex);
    if (ThreadState* state = recorder.free_threads; state != nullptr) {
      recorder.free_threads = state->next_free;
      state->next_free = nullptr;
      return state;
    }
  }
  void* memory = recorder.arena.Allocate(sizeof(ThreadState));
  return memory == nullptr ? nullptr : new (memory) ThreadState;
}

ThreadState* MakeThread(Recorder& recorder) {
  t_locals.owner = &recorder;
  t_locals.state = &g_no_state;
  t_locals.thread = 0;
  const auto added = recorder.threads.Add([](journal::ThreadRecord& record) {
    record.tid = ThreadKernelId();
    record.first_ns = MonotonicNs();
    ThreadName(record.name);
  });
  t_locals.thread = added.index;
  ThreadState* state = NewState(recorder);
  if (state == nullptr) return t_locals.state;
  state->thread = added.index;
  state->record = added.record;
  // Without a key nobody would notice the end, and the chain could never be handed on: then there is none.
  if (!g_thread_key_made.load(std::memory_order_acquire) || pthread_setspecific(g_thread_key, state) != 0) {
    std::lock_guard<std::mutex> lock(recorder.thread_mutex);
    state->next_free = recorder.free_threads;
    recorder.free_threads = state;
    return t_locals.state;
  }
  state->chain = recorder.chains.Acquire();
  t_locals.state = state;
  return state;
}

}  // namespace

bool MakeThreadKey() {
  if (g_thread_key_made.load(std::memory_order_acquire)) return true;
  if (pthread_key_create(&g_thread_key, ThreadEnds) != 0) return false;
  g_thread_key_made.store(true, std::memory_order_release);
  return true;
}

ThreadState* CurrentThread(Recorder& recorder) {
  if (t_locals.owner == &recorder) [[likely]] {
    return t_locals.state;
  }
  return MakeThread(recorder);
}

void Recorder::Note(journal::NoteCode code, std::string_view text, std::uint64_t a, std::uint64_t b) {
  std::uint64_t hash = 0xCBF29CE484222325 ^ static_cast<std::uint64_t>(code);
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  {
    std::lock_guard<std::mutex> lock(notes_mutex);
    if (note_count == kMaxNotes) return;
    for (std::uint32_t i = 0; i < note_count; ++i) {
      if (note_hashes[i] == hash) return;
    }
    note_hashes[note_count++] = hash;
  }
  notes.Add([&](journal::NoteRecord& record) {
    record.code = static_cast<std::uint16_t>(code);
    record.text_bytes =
        static_cast<std::uint16_t>(text.size() < sizeof(record.text) ? text.size() : sizeof(record.text));
    record.time_ns = MonotonicNs();
    record.a = a;
    record.b = b;
    text.copy(record.text, record.text_bytes);
  });
}

}  // namespace cuheap::recorder
