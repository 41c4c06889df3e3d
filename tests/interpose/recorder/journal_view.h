// A plain reader of a journal whose writer is gone, for the tests of the recorder. Written from the layout's rules and
// independent of the real reader in analysis/: it trusts nothing and reports what breaks the rules.
#ifndef CUHEAP_TESTS_INTERPOSE_RECORDER_JOURNAL_VIEW_H_
#define CUHEAP_TESTS_INTERPOSE_RECORDER_JOURNAL_VIEW_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "interpose/journal/format.h"

namespace cuheap::testing {

struct ViewEvent {
  std::uint32_t chain = 0;
  std::uint64_t sequence = 0;
  std::uint64_t time_ns = 0, address = 0, bytes = 0, allocation_id = 0, stream = 0;
  std::uint32_t stack = 0, thread = 0;
  journal::EventType type = journal::EventType::kNone;
  journal::AllocationKind kind = journal::AllocationKind::kNone;
  std::uint16_t device = 0, flags = 0, result = 0;
};

struct ViewBlock {
  std::uint64_t allocation_id = 0, address = 0, bytes = 0, reserved_bytes = 0, time_ns = 0, stream = 0, context = 0;
  std::uint32_t stack = 0, thread = 0;
  journal::AllocationKind kind = journal::AllocationKind::kNone;
  std::uint16_t device = 0, flags = 0;
  std::uint64_t mapped_address = 0;
};

struct ViewModule {
  std::uint64_t load_bias = 0, begin = 0, end = 0;
  std::string path, build_id;
};

struct ViewStack {
  std::uint16_t flags = 0;
  std::vector<std::uint64_t> words;
};

struct ViewThread {
  std::uint32_t tid = 0;
  std::uint64_t first_ns = 0, last_ns = 0;
  std::string name;
};

struct ViewNote {
  journal::NoteCode code = journal::NoteCode::kNone;
  std::string text;
  std::uint64_t a = 0, b = 0;
};

class JournalView {
 public:
  explicit JournalView(const std::string& path);
  ~JournalView();
  JournalView(const JournalView&) = delete;
  JournalView& operator=(const JournalView&) = delete;

  // Empty if every rule of the layout holds.
  const std::string& problem() const { return problem_; }
  const journal::FileHeader& header() const { return *header_; }
  const journal::DriverTime& driver_time(journal::DriverCall call) const {
    return header_->driver_time[static_cast<std::size_t>(call)];
  }
  std::uint64_t counter(journal::Counter counter) const {
    return header_->counters[static_cast<std::size_t>(counter)].load();
  }

  std::vector<ViewEvent> events;  // by time, then chain and sequence
  std::vector<ViewBlock> live;    // even slots with state 1
  std::uint64_t odd_slots = 0;
  std::map<std::uint32_t, ViewStack> stacks;  // by id
  std::vector<ViewModule> modules;            // module i is modules[i - 1]
  std::vector<ViewThread> threads;            // thread i is threads[i - 1]
  std::vector<ViewNote> notes;
  std::uint64_t event_extents = 0;

 private:
  void Problem(const std::string& what) {
    if (problem_.empty()) problem_ = what;
  }
  void Read(const std::string& path);
  void ReadEvents(const journal::Extent& extent);
  void ReadLive(const journal::Extent& extent);
  void ReadStacks(const journal::Extent& extent, std::uint64_t first_word);
  void ReadModules(const journal::Extent& extent);
  void ReadThreads(const journal::Extent& extent);
  void ReadNotes(const journal::Extent& extent);
  void CheckReferences();

  template <typename T>
  const T* At(const journal::Extent& extent) const {
    return reinterpret_cast<const T*>(data_ + extent.offset);
  }

  std::string problem_;
  const char* data_ = nullptr;
  std::uint64_t size_ = 0;
  const journal::FileHeader* header_ = nullptr;
};

}  // namespace cuheap::testing

#endif  // CUHEAP_TESTS_INTERPOSE_RECORDER_JOURNAL_VIEW_H_
