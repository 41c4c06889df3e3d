#include "tests/interpose/fake_recorder.h"

#include <mutex>

namespace cuheap::testing {
std::atomic<FakeRecorder*> fake_recorder = nullptr;
}  // namespace cuheap::testing

namespace cuheap::recorder {
namespace {

testing::FakeRecorder& Recorder() { return *testing::fake_recorder.load(); }

}  // namespace

void Allocated(const Allocation& allocation) {
  const std::lock_guard lock(Recorder().mutex);
  Recorder().log.push_back("Allocated");
  Recorder().live[allocation.address] = allocation;
}

void AllocationFailed(const Allocation& asked, std::uint16_t result) {
  const std::lock_guard lock(Recorder().mutex);
  Recorder().log.push_back("AllocationFailed");
  Recorder().failures.emplace_back(asked, result);
}

FreeToken Freeing(std::uint64_t address, std::uint16_t, std::uint64_t, StackId, journal::AllocationKind) {
  const std::lock_guard lock(Recorder().mutex);
  Recorder().log.push_back("Freeing");
  FreeToken token;
  const auto found = Recorder().live.find(address);
  if (found != Recorder().live.end()) {
    token.known = true;
    token.allocation = found->second;
    Recorder().live.erase(found);
  }
  return token;
}

void FreeFailed(const FreeToken& token, std::uint16_t) {
  const std::lock_guard lock(Recorder().mutex);
  Recorder().log.push_back("FreeFailed");
  if (token.known) Recorder().live[token.allocation.address] = token.allocation;
}

void DeviceSeen(std::uint16_t, std::string_view, std::uint64_t, std::uint32_t, const unsigned char (&)[16],
                std::uint64_t) {}
void Mapped(std::uint64_t, journal::AllocationKind, std::uint64_t, std::uint64_t) {
  Recorder().Append("Mapped");
}
void Unmapping(std::uint64_t, journal::AllocationKind, std::uint64_t, std::uint64_t) {
  Recorder().Append("Unmapping");
}
void SegmentAllocated(const Allocation&) {}
void SegmentFreeing(std::uint64_t) {}
void PoolState(std::uint16_t, std::uint64_t, std::uint64_t) {}

void Synchronized(std::uint16_t, std::uint64_t, std::uint64_t, StackId) {
  const std::lock_guard lock(Recorder().mutex);
  Recorder().log.push_back("Synchronized");
}

void ContextDestroyed(std::uint64_t context) {
  const std::lock_guard lock(Recorder().mutex);
  Recorder().log.push_back("ContextDestroyed");
  std::erase_if(Recorder().live, [context](const auto& entry) { return entry.second.context == context; });
}

void DriverCalled(journal::DriverCall call, std::uint64_t, StackId) {
  const std::lock_guard lock(Recorder().mutex);
  ++Recorder().driver_calls[call];
}

void Count(journal::Counter counter, std::uint64_t by) {
  const std::lock_guard lock(Recorder().mutex);
  Recorder().counters[counter] += by;
}

void Note(journal::NoteCode code, std::string_view text, std::uint64_t, std::uint64_t) {
  const std::lock_guard lock(Recorder().mutex);
  Recorder().notes.emplace_back(code, std::string(text));
}

CapturedStack CaptureStack(bool) { return {7, Recorder().caller_is_pytorch}; }

}  // namespace cuheap::recorder
