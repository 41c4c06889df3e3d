// Stands in for interpose/recorder at link time: keeps what the hooks told it, in one list with the fake driver's
// calls, so that tests can look at the order.
#ifndef CUHEAP_TESTS_INTERPOSE_FAKE_RECORDER_H_
#define CUHEAP_TESTS_INTERPOSE_FAKE_RECORDER_H_

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "interpose/recorder/recorder.h"

namespace cuheap::testing {

struct FakeRecorder {
  std::mutex mutex;              // of all below
  std::vector<std::string> log;  // recorder and driver calls in order
  std::map<std::uint64_t, recorder::Allocation> live;
  std::vector<std::pair<recorder::Allocation, int>> failures;
  std::map<journal::Counter, std::uint64_t> counters;
  std::map<journal::DriverCall, std::uint64_t> driver_calls;  // how many
  std::vector<std::pair<journal::NoteCode, std::string>> notes;
  bool caller_is_pytorch = false;

  void Append(const std::string& call) {
    const std::lock_guard lock(mutex);
    log.push_back(call);
  }
  bool Noted(journal::NoteCode code) const {
    for (const auto& note : notes) {
      if (note.first == code) return true;
    }
    return false;
  }
};

// The one that the recorder's functions write to; set by each test's fixture.
// Atomic, since a router's helper thread may outlive its test.
extern std::atomic<FakeRecorder*> fake_recorder;

}  // namespace cuheap::testing

#endif  // CUHEAP_TESTS_INTERPOSE_FAKE_RECORDER_H_
