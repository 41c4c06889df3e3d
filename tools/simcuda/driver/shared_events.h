// Events that processes share (CU_EVENT_INTERPROCESS; Driver API reference 6.13, cuIpcGetEventHandle).
//
// Each process keeps its own interprocess events on one board, a shared file with a slot an event. A slot counts the
// records, whoever makes them, and tells which are complete, so that a process can wait for the work of another. With
// the default order work runs when something waits for it; so who waits says so in the slot, and a thread of the
// process that recorded runs what is wanted.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "tools/simcuda/driver/cuda_api.h"
#include "tools/simcuda/driver/shared_file.h"

namespace simcuda {

struct Context;
struct Event;
struct Stream;
struct Work;

// In shared memory.
struct EventSlot {
  static constexpr size_t kRecords = 64;
  struct Record {
    std::atomic<uint64_t> number;
    std::atomic<int64_t> process;  // whose work it is
    std::atomic<uint64_t> done;    // the highest number that is complete
  };
  std::atomic<uint64_t> id;        // of the event whose slot it is; 0: none
  std::atomic<uint64_t> recorded;  // goes on when the slot is another event's
  std::atomic<uint64_t> wanted;    // somebody waits for records up to this one
  Record records[kRecords];

  Record& RecordOf(uint64_t number) { return records[number % kRecords]; }
  uint64_t Begin();
  void Complete(uint64_t number);
  // Whether the record is complete, or was of a process that is gone. Asks for it if not.
  bool Done(uint64_t number);
};

struct EventBoard {
  static constexpr size_t kSlots = 4096;
  static constexpr size_t kSlotBytes = 4096;
  static_assert(sizeof(EventSlot) <= kSlotBytes);

  std::shared_ptr<SharedFile> file;
  char* slots = nullptr;
  EventSlot* Slot(size_t index) const { return reinterpret_cast<EventSlot*>(slots + index * kSlotBytes); }
  ~EventBoard();
};

// The shared part of an event, in this process.
struct SharedEvent {
  std::shared_ptr<EventBoard> board;
  EventSlot* slot = nullptr;
  bool imported = false;
  uint64_t recorded_here = 0;  // the last record that this process made
  ~SharedEvent();
};

// What the 64 bytes of a CUipcEventHandle hold.
struct EventHandle {
  static constexpr uint64_t kMagic = 0x45494d4353494d31;

  uint64_t magic = kMagic;
  SharedKey key;  // of the board
  int32_t process = 0;
  int32_t descriptor = 0;
  uint64_t event_id = 0;
  uint64_t slot = 0;
  uint64_t reserved[2] = {};
};
static_assert(sizeof(EventHandle) == sizeof(CUipcEventHandle));

// Guarded by the driver's lock.
class SharedEvents {
 public:
  // A slot for a new event. Null when all are taken or the kernel gives no file.
  std::shared_ptr<SharedEvent> Make();
  CUresult Export(const SharedEvent& event, CUipcEventHandle* handle);
  // Errors: INVALID_HANDLE, INVALID_CONTEXT in the process that made the event.
  CUresult Import(const EventHandle& handle, std::shared_ptr<SharedEvent>* event);

  // Makes `work`, about to be queued, the next record of the event.
  void Recording(SharedEvent& event, const std::shared_ptr<Work>& work);
  // Whether the event's last record is of another process, so that its `record` means nothing.
  static bool Elsewhere(const Event& event);
  // The same three that an event of this process alone has.
  static bool Query(const Event& event);
  static void Wait(const Event& event);
  static std::shared_ptr<Work> WaitingWork(const Event& event);

 private:
  struct Pending {
    std::shared_ptr<EventBoard> board;
    EventSlot* slot = nullptr;
    uint64_t number = 0;
    std::weak_ptr<Work> work;
  };

  void StartThread();
  void RunWanted();

  std::shared_ptr<EventBoard> own_;
  std::vector<size_t> free_;
  size_t used_ = 0;
  uint64_t next_id_ = 1;
  bool shared_ = false;  // some event has a handle, or is another process's
  std::map<std::pair<pid_t, SharedKey>, std::weak_ptr<EventBoard>> boards_;
  std::vector<Pending> pending_;
  std::condition_variable recorded_;

  friend struct SharedEvent;
};

}  // namespace simcuda
