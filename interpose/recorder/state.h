// The recorder's state, shared by the sources of this folder and by interpose/stacks. Hooks include recorder.h only.
#ifndef CUHEAP_INTERPOSE_RECORDER_STATE_H_
#define CUHEAP_INTERPOSE_RECORDER_STATE_H_

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <string_view>

#include "interpose/journal/format.h"
#include "interpose/recorder/event_chains.h"
#include "interpose/recorder/journal_file.h"
#include "interpose/recorder/live_table.h"
#include "interpose/recorder/own_memory.h"
#include "interpose/recorder/record_table.h"

namespace cuheap::recorder {

inline constexpr std::uint32_t kMaxThreadRecords = 1u << 16;
inline constexpr std::uint32_t kMaxNotes = 4096;
inline constexpr std::uint32_t kMaxModules = journal::kPythonModule - 1;  // 16 bits in a frame word

// What one thread needs to record. Reached through a plain thread-local pointer; see Note [Threads that end].
struct ThreadState {
  EventChain* chain = nullptr;  // nullptr: events go to the shared chain, under its lock
  std::uint32_t thread = 0;     // index of the ThreadRecord, 0 = none
  std::uint32_t destructor_rounds = 0;
  journal::ThreadRecord* record = nullptr;
  ThreadState* next_free = nullptr;
};

// Everything of one journal. A forked child that starts a journal gets a new one of these; the parent's is left as it
// was at the fork, locks held by threads that are gone included.
struct Recorder {
  // 1 while this process is the one that made the journal: the page is wiped in a forked child (MADV_WIPEONFORK),
  // however the fork came about.
  std::atomic<std::uint32_t>* alive = nullptr;
  std::atomic<bool> ending = false;

  JournalFile file;
  Arena arena;
  EventChains chains;
  LiveTable live;
  RecordTable<journal::ThreadRecord, journal::ExtentKind::kThreads> threads;
  RecordTable<journal::NoteRecord, journal::ExtentKind::kNotes> notes;
  RecordTable<journal::ModuleRecord, journal::ExtentKind::kModules> modules;

  // Events of threads without a chain of their own: ended ones, and those that could not get one.
  std::mutex shared_mutex;
  EventChain* shared_chain = nullptr;

  std::mutex notes_mutex;
  std::uint64_t note_hashes[kMaxNotes] = {};
  std::uint32_t note_count = 0;

  std::mutex thread_mutex;
  ThreadState* free_threads = nullptr;

  void Count(journal::Counter counter, std::uint64_t by = 1) {
    file.header()->counters[static_cast<std::size_t>(counter)].fetch_add(by, std::memory_order_relaxed);
  }
  void Uncount(journal::Counter counter) {
    file.header()->counters[static_cast<std::size_t>(counter)].fetch_sub(1, std::memory_order_relaxed);
  }
  // Once per (code, text).
  void Note(journal::NoteCode code, std::string_view text, std::uint64_t a, std::uint64_t b);
};

// The recorder of this process, or nullptr: not started, or a forked child.
Recorder* ActiveRecorder();

// Marks the thread as being inside the recorder. A second one on the same thread (a signal handler that allocates, a
// call of ours that led back to a hook) finds no recorder, which is what keeps it from waiting for a lock its own
// thread holds. Keeps errno over its life.
class RecordingScope {
 public:
  RecordingScope();
  ~RecordingScope();
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;

  // nullptr: do nothing.
  Recorder* recorder() const { return recorder_; }

 private:
  Recorder* recorder_ = nullptr;
  int saved_errno_ = 0;
};

// Appends to the thread's own chain, or to the shared one. Only inside a RecordingScope.
void AppendEvent(Recorder& recorder, ThreadState& thread, EventData& data);

// Raises `peak` to at least `value`; true if it was lower.
bool Raise(std::atomic<std::uint64_t>& peak, std::uint64_t value);

// The calling thread's state, made at its first event. Only inside a RecordingScope. Never nullptr.
ThreadState* CurrentThread(Recorder& recorder);

}  // namespace cuheap::recorder

#endif  // CUHEAP_INTERPOSE_RECORDER_STATE_H_
