#include "tools/simcuda/driver/shared_events.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "entry_points.h"
#include "tools/simcuda/driver/call.h"
#include "tools/simcuda/driver/contexts.h"
#include "tools/simcuda/driver/queue.h"
#include "tools/simcuda/driver/state.h"

namespace simcuda {
namespace {

// How long a process that waits for another's work goes between looks at whether that process still lives.
constexpr auto kBetweenSignsOfLife = std::chrono::milliseconds(20);
// How soon work that another process waits for is found.
constexpr auto kBetweenLooks = std::chrono::milliseconds(1);

// False for a process that has ended, whether or not its parent has asked for its status.
bool Lives(int64_t process) {
  if (process == getpid()) return true;
  if (kill(static_cast<pid_t>(process), 0) != 0 && errno == ESRCH) return false;
  char path[64], text[256];
  std::snprintf(path, sizeof path, "/proc/%lld/stat", static_cast<long long>(process));
  const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return errno != ENOENT;
  const ssize_t length = read(descriptor, text, sizeof text - 1);
  close(descriptor);
  if (length <= 0) return false;
  text[length] = '\0';
  // "PID (NAME) STATE": the name may hold anything.
  const char* name_end = std::strrchr(text, ')');
  return name_end == nullptr || name_end[1] == '\0' || (name_end[2] != 'Z' && name_end[2] != 'X');
}

void RaiseTo(std::atomic<uint64_t>* number, uint64_t at_least) {
  uint64_t seen = number->load();
  while (seen < at_least && !number->compare_exchange_weak(seen, at_least)) {
  }
}

std::shared_ptr<EventBoard> MapBoard(std::shared_ptr<SharedFile> file) {
  if (!file || file->bytes() != EventBoard::kSlots * EventBoard::kSlotBytes) return nullptr;
  auto board = std::make_shared<EventBoard>();
  board->slots = static_cast<char*>(file->Map(file->bytes(), 0));
  board->file = std::move(file);
  return board->slots == nullptr ? nullptr : board;
}

}  // namespace

uint64_t EventSlot::Begin() {
  const uint64_t number = recorded.fetch_add(1) + 1;
  Record& record = RecordOf(number);
  record.process = getpid();
  record.number = number;
  return number;
}

void EventSlot::Complete(uint64_t number) { RaiseTo(&RecordOf(number).done, number); }

bool EventSlot::Done(uint64_t number) {
  if (number == 0) return true;  // never recorded
  Record& record = RecordOf(number);
  if (record.done >= number) return true;
  RaiseTo(&wanted, number);
  static thread_local std::chrono::steady_clock::time_point next_sign;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_sign) return false;
  next_sign = now + kBetweenSignsOfLife;
  // What a process had queued ends with it.
  if (record.number != number || Lives(record.process)) return false;
  Complete(number);
  return true;
}

EventBoard::~EventBoard() {
  if (slots != nullptr) syscall(SYS_munmap, slots, kSlots * kSlotBytes);
}

SharedEvent::~SharedEvent() {
  if (imported || slot == nullptr) return;
  slot->id = 0;
  SharedEvents& events = State::Get().shared_events;
  events.free_.push_back(static_cast<size_t>(reinterpret_cast<char*>(slot) - board->slots) / EventBoard::kSlotBytes);
}

std::shared_ptr<SharedEvent> SharedEvents::Make() {
  if (!own_) {
    own_ = MapBoard(SharedFile::Create(SharedKind::kEvents, 0, EventBoard::kSlots * EventBoard::kSlotBytes));
    if (!own_) return nullptr;
  }
  size_t index = used_;
  if (!free_.empty()) {
    index = free_.back();
    free_.pop_back();
  } else if (++used_ > EventBoard::kSlots) {
    --used_;
    return nullptr;
  }
  auto event = std::make_shared<SharedEvent>();
  event->board = own_;
  event->slot = own_->Slot(index);
  event->slot->id = next_id_++;
  event->recorded_here = event->slot->recorded;
  return event;
}

CUresult SharedEvents::Export(const SharedEvent& event, CUipcEventHandle* handle) {
  EventHandle made;
  made.key = own_->file->facts().key;
  made.process = getpid();
  made.descriptor = own_->file->descriptor();
  made.event_id = event.slot->id;
  made.slot = static_cast<uint64_t>(reinterpret_cast<char*>(event.slot) - own_->slots) / EventBoard::kSlotBytes;
  std::memcpy(handle, &made, sizeof made);
  StartThread();
  return CUDA_SUCCESS;
}

CUresult SharedEvents::Import(const EventHandle& handle, std::shared_ptr<SharedEvent>* event) {
  if (handle.magic != EventHandle::kMagic || handle.slot >= EventBoard::kSlots || handle.event_id == 0) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (handle.process == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
  std::weak_ptr<EventBoard>& known = boards_[{handle.process, handle.key}];
  std::shared_ptr<EventBoard> board = known.lock();
  if (!board) {
    board = MapBoard(SharedFile::FromProcess(handle.process, handle.descriptor, handle.key, SharedKind::kEvents));
    if (!board) return CUDA_ERROR_INVALID_HANDLE;
    known = board;
  }
  EventSlot* slot = board->Slot(handle.slot);
  if (slot->id != handle.event_id) return CUDA_ERROR_INVALID_HANDLE;
  auto made = std::make_shared<SharedEvent>();
  made->board = std::move(board);
  made->slot = slot;
  made->imported = true;
  *event = std::move(made);
  StartThread();
  return CUDA_SUCCESS;
}

void SharedEvents::Recording(SharedEvent& event, const std::shared_ptr<Work>& work) {
  const uint64_t number = event.recorded_here = event.slot->Begin();
  // The board, not the event: it may be destroyed before the work has run.
  const auto complete = [board = event.board, slot = event.slot, number] { slot->Complete(number); };
  work->run = [complete] {
    complete();
    return Outcome::kDone;
  };
  work->run_when_lost = [complete](CUresult) { complete(); };
  std::erase_if(pending_, [](const Pending& each) {
    const auto pending = each.work.lock();
    return !pending || pending->done;
  });
  pending_.push_back({event.board, event.slot, number, work});
  recorded_.notify_one();
}

bool SharedEvents::Elsewhere(const Event& event) {
  return event.shared && event.shared->slot->recorded != event.shared->recorded_here;
}

bool SharedEvents::Query(const Event& event) { return event.shared->slot->Done(event.shared->slot->recorded); }

void SharedEvents::Wait(const Event& event) {
  const std::shared_ptr<SharedEvent> shared = event.shared;  // the lock is free while we wait
  const uint64_t number = shared->slot->recorded;
  while (!shared->slot->Done(number)) State::Get().engine.Pause();
}

std::shared_ptr<Work> SharedEvents::WaitingWork(const Event& event) {
  const uint64_t number = event.shared->slot->recorded;
  return NewWork("wait_event", [board = event.shared->board, slot = event.shared->slot, number] {
    return slot->Done(number) ? Outcome::kDone : Outcome::kAgain;
  });
}

void SharedEvents::StartThread() {
  if (shared_) return;
  shared_ = true;
  StartDriverThread([] { State::Get().shared_events.RunWanted(); });
}

void SharedEvents::RunWanted() {
  std::unique_lock<std::mutex> lock(State::Get().mutex);
  ThreadLock() = &lock;
  for (;;) {
    recorded_.wait(lock, [&] { return !pending_.empty(); });
    const std::vector<Pending> look = pending_;
    for (const Pending& each : look) {
      const auto work = each.work.lock();
      if (work && !work->done && each.slot->wanted >= each.number) State::Get().engine.RunToward(work);
    }
    std::erase_if(pending_, [](const Pending& each) {
      const auto work = each.work.lock();
      return !work || work->done;
    });
    lock.unlock();
    std::this_thread::sleep_for(kBetweenLooks);
    lock.lock();
  }
}

CUresult impl::cuIpcGetEventHandle(CUipcEventHandle* pHandle, CUevent event) {
  State& state = State::Get();
  const std::shared_ptr<Event> found = state.events.Find(event);
  if (pHandle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!found) return CUDA_ERROR_INVALID_HANDLE;
  // "This event must have been created with the CU_EVENT_INTERPROCESS and CU_EVENT_DISABLE_TIMING flags set."
  if (!found->shared || found->shared->imported) return CUDA_ERROR_INVALID_HANDLE;
  return state.shared_events.Export(*found->shared, pHandle);
}

// "Returns a CUevent that behaves like a locally created event with the CU_EVENT_DISABLE_TIMING flag specified."
CUresult impl::cuIpcOpenEventHandle(CUevent* phEvent, CUipcEventHandle handle) {
  SIMCUDA_CURRENT(context);
  if (phEvent == nullptr) return CUDA_ERROR_INVALID_VALUE;
  State& state = State::Get();
  const auto opened = std::bit_cast<EventHandle>(handle);
  auto event = std::make_shared<Event>();
  if (const CUresult result = state.shared_events.Import(opened, &event->shared)) return result;
  event->context = context;
  event->flags = CU_EVENT_DISABLE_TIMING;
  *phEvent = event->handle = state.events.Add(event);
  return CUDA_SUCCESS;
}

}  // namespace simcuda
