// A StreamMemory that only pretends: for tests, benchmarks and dry runs of code that uses StreamPool. Nothing behind
// the addresses can be read or written. Streams do what the test says: work is submitted to them, and completes when
// told.
//
//   FakeStreamMemory memory({.capacity = std::size_t{1} << 30});
//   StreamPool pool(memory, nullptr, {});
//   memory.Submit(1);                          // stream 1 has work
//   memory.Complete(1, memory.Submitted(1));   // it is done with all of it
#ifndef CUHEAP_ALLOCATOR_FAKE_STREAM_MEMORY_H_
#define CUHEAP_ALLOCATOR_FAKE_STREAM_MEMORY_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "allocator/driver_result.h"
#include "allocator/stream_memory.h"
#include "allocator/stream_types.h"
#include "allocator/types.h"

namespace cuheap {

// Deterministic: the lowest address that fits. Threads: any, at the same time.
class FakeStreamMemory {
 public:
  struct Options {
    std::size_t capacity = std::size_t{1} << 30;  // bytes of each device
    std::size_t address_space = std::size_t{1} << 46;
    DeviceAddress first_address = DeviceAddress{0x6} << 44;
  };
  enum class Operation {
    kReserve,
    kUnreserve,
    kCreate,
    kRelease,
    kMap,
    kUnmap,
    kSetAccess,
    kRecordEvent,
    kQueryEvent,
    kQueryStream,
    kSynchronize,
    kCount
  };
  static constexpr DriverResult kNotReady{600};  // CUDA_ERROR_NOT_READY

  FakeStreamMemory() = default;
  explicit FakeStreamMemory(Options options) : options_(options) {}

  DriverResult Reserve(std::size_t bytes, std::uint64_t* out) {
    return Run(Operation::kReserve, [&] {
      if (bytes == 0 || bytes % kStreamPage != 0) return Misuse();
      DeviceAddress address = options_.first_address;
      for (const auto& [base, size] : reserved_) {
        if (base - address >= bytes) break;
        address = base + size;
      }
      if (address + bytes > options_.first_address + options_.address_space) return kDriverOutOfMemory;
      reserved_[address] = bytes;
      *out = address;
      return kDriverSuccess;
    });
  }
  DriverResult Unreserve(DeviceAddress address, std::size_t bytes) {
    return Run(Operation::kUnreserve, [&] {
      const auto found = reserved_.find(address);
      const auto mapping = mapped_.lower_bound(address);
      if (found == reserved_.end() || found->second != bytes) return Misuse();
      if (mapping != mapped_.end() && mapping->first < address + bytes) return Misuse();
      reserved_.erase(found);
      return kDriverSuccess;
    });
  }
  DriverResult Create(int device, std::size_t bytes, std::uint64_t* out) {
    return Run(Operation::kCreate, [&] {
      if (bytes == 0 || bytes % kStreamPage != 0) return Misuse();
      if (held_[device] + bytes > options_.capacity) return kDriverOutOfMemory;
      held_[device] += bytes;
      physical_[next_handle_] = {device, bytes, true, false};
      *out = next_handle_++;
      return kDriverSuccess;
    });
  }
  DriverResult Release(std::uint64_t handle) {
    return Run(Operation::kRelease, [&] {
      const auto found = physical_.find(handle);
      if (found == physical_.end() || !found->second.referred) return Misuse();
      found->second.referred = false;
      DropIfUnused(found);
      return kDriverSuccess;
    });
  }
  DriverResult Map(DeviceAddress address, std::size_t bytes, std::uint64_t handle) {
    return Run(Operation::kMap, [&] {
      const auto found = physical_.find(handle);
      if (found == physical_.end() || found->second.bytes != bytes || found->second.mapped) return Misuse();
      auto after = mapped_.upper_bound(address);
      if (after != mapped_.end() && after->first < address + bytes) return Misuse();
      if (after != mapped_.begin() && End(*std::prev(after)) > address) return Misuse();
      found->second.mapped = true;
      mapped_[address] = {bytes, handle, {}};
      return kDriverSuccess;
    });
  }
  DriverResult Unmap(DeviceAddress address, std::size_t bytes) {
    if (on_unmap_) on_unmap_(address, bytes);
    return Run(Operation::kUnmap, [&] {
      const auto mapping = mapped_.find(address);
      if (mapping == mapped_.end() || mapping->second.bytes != bytes) return Misuse();
      const auto physical = physical_.find(mapping->second.handle);
      mapped_.erase(mapping);
      physical->second.mapped = false;
      DropIfUnused(physical);
      return kDriverSuccess;
    });
  }
  DriverResult SetAccess(DeviceAddress address, std::size_t bytes, const AccessGrant* grants, std::size_t count) {
    return Run(Operation::kSetAccess, [&] {
      DeviceAddress at = address;
      for (auto mapping = mapped_.find(address);
           mapping != mapped_.end() && mapping->first == at && at < address + bytes; ++mapping) {
        for (std::size_t i = 0; i < count; ++i) mapping->second.access[grants[i].device] = grants[i].flags;
        at = End(*mapping);
      }
      return at == address + bytes ? kDriverSuccess : kDriverInvalidValue;
    });
  }
  DriverResult RecordEvent(const StreamRef& stream, std::uint64_t* out) {
    if (on_record_) on_record_(stream);
    return Run(Operation::kRecordEvent, [&] {
      if (destroyed_.contains(stream.id)) return Misuse();
      events_[next_event_] = {stream.id, streams_[stream.id].submitted};
      *out = next_event_++;
      return kDriverSuccess;
    });
  }
  DriverResult QueryEvent(std::uint64_t event) {
    return Run(Operation::kQueryEvent, [&] {
      const auto found = events_.find(event);
      if (found == events_.end()) return Misuse();
      return streams_[found->second.first].completed >= found->second.second ? kDriverSuccess : kNotReady;
    });
  }
  void DestroyEvent(std::uint64_t event) {
    const std::lock_guard lock(mutex_);
    if (events_.erase(event) == 0) Misuse();
  }
  DriverResult QueryStream(const StreamRef& stream) {
    return Run(Operation::kQueryStream, [&] {
      if (destroyed_.contains(stream.id)) return Misuse();
      const Stream& found = streams_[stream.id];
      return found.completed == found.submitted ? kDriverSuccess : kNotReady;
    });
  }
  DriverResult Synchronize(std::uint64_t context) {
    const DriverResult result = Run(Operation::kSynchronize, [&] {
      if (!may_synchronize_) return kNotReady;
      for (auto& [id, stream] : streams_) {
        if (stream.context == context) stream.completed = stream.submitted;
      }
      return kDriverSuccess;
    });
    if (on_synchronized_) on_synchronized_(context);
    return result;
  }

  // ---- what tests say ----

  void AddStream(StreamId stream, ContextId context) {
    const std::lock_guard lock(mutex_);
    streams_[stream].context = context;
  }
  // The position of the new work in its stream.
  std::uint64_t Submit(StreamId stream) {
    const std::lock_guard lock(mutex_);
    return ++streams_[stream].submitted;
  }
  void Complete(StreamId stream, std::uint64_t position) {
    const std::lock_guard lock(mutex_);
    std::uint64_t& completed = streams_[stream].completed;
    completed = std::max(completed, std::min(position, streams_[stream].submitted));
  }
  std::uint64_t Submitted(StreamId stream) const { return Get(stream).submitted; }
  std::uint64_t Completed(StreamId stream) const { return Get(stream).completed; }
  // Any call that names it is a misuse from now on.
  void DestroyStream(StreamId stream) {
    const std::lock_guard lock(mutex_);
    destroyed_[stream] = true;
  }
  void set_may_synchronize(bool may) { may_synchronize_ = may; }
  // Called before pages are taken away, without a lock.
  void set_on_unmap(std::function<void(DeviceAddress, std::size_t)> on_unmap) { on_unmap_ = std::move(on_unmap); }

  // Called before an event is recorded, and after a synchronisation, without a lock.
  void set_on_record(std::function<void(const StreamRef&)> on_record) { on_record_ = std::move(on_record); }
  void set_on_synchronized(std::function<void(ContextId)> on_synchronized) {
    on_synchronized_ = std::move(on_synchronized);
  }

  // The call of this number (they count from 0) fails with the result, unless it is a Release or Unreserve.
  void FailCall(std::uint64_t number, DriverResult result) {
    const std::lock_guard lock(mutex_);
    failures_[number] = result;
  }
  void FailAll(Operation operation, DriverResult result) {
    const std::lock_guard lock(mutex_);
    standing_[static_cast<int>(operation)] = result;
  }

  std::uint64_t calls() const {
    const std::lock_guard lock(mutex_);
    return calls_;
  }
  std::uint64_t calls(Operation operation) const {
    const std::lock_guard lock(mutex_);
    return calls_of_[static_cast<int>(operation)];
  }
  // Calls that the documentation forbids: unknown addresses, handles and events, destroyed streams.
  std::uint64_t misuses() const {
    const std::lock_guard lock(mutex_);
    return misuses_;
  }
  std::size_t held(int device) const {
    const std::lock_guard lock(mutex_);
    const auto found = held_.find(device);
    return found == held_.end() ? 0 : found->second;
  }
  std::size_t reserved() const {
    const std::lock_guard lock(mutex_);
    std::size_t sum = 0;
    for (const auto& [address, bytes] : reserved_) sum += bytes;
    return sum;
  }
  std::size_t events() const {
    const std::lock_guard lock(mutex_);
    return events_.size();
  }
  // May the device use every byte of the range?
  bool Usable(DeviceAddress address, std::size_t bytes, int device) const {
    const std::lock_guard lock(mutex_);
    DeviceAddress at = address;
    while (at < address + bytes) {
      auto mapping = mapped_.upper_bound(at);
      if (mapping == mapped_.begin()) return false;
      --mapping;
      const auto access = mapping->second.access.find(device);
      if (End(*mapping) <= at || access == mapping->second.access.end() || access->second != 3) return false;
      at = End(*mapping);
    }
    return true;
  }

 private:
  struct Physical {
    int device;
    std::size_t bytes;
    bool referred, mapped;
  };
  struct Mapping {
    std::size_t bytes;
    std::uint64_t handle;
    std::map<int, int> access;
  };
  struct Stream {
    std::uint64_t submitted = 0, completed = 0;
    ContextId context = 0;
  };

  static DeviceAddress End(const std::pair<const DeviceAddress, Mapping>& mapping) {
    return mapping.first + mapping.second.bytes;
  }
  DriverResult Misuse() {
    ++misuses_;
    return kDriverInvalidValue;
  }
  void DropIfUnused(std::map<std::uint64_t, Physical>::iterator physical) {
    if (physical->second.referred || physical->second.mapped) return;
    held_[physical->second.device] -= physical->second.bytes;
    physical_.erase(physical);
  }
  Stream Get(StreamId stream) const {
    const std::lock_guard lock(mutex_);
    const auto found = streams_.find(stream);
    return found == streams_.end() ? Stream() : found->second;
  }
  template <class Effect>
  DriverResult Run(Operation operation, Effect effect) {
    const std::lock_guard lock(mutex_);
    const auto failure = failures_.find(calls_++);
    ++calls_of_[static_cast<int>(operation)];
    // What only gives back is taken to succeed.
    const bool gives_back = operation == Operation::kRelease || operation == Operation::kUnreserve;
    if (failure != failures_.end() && !gives_back) return failure->second;
    const DriverResult standing = standing_[static_cast<int>(operation)];
    return standing.ok() ? effect() : standing;
  }

  const Options options_;
  mutable std::mutex mutex_;
  std::function<void(DeviceAddress, std::size_t)> on_unmap_;
  std::function<void(const StreamRef&)> on_record_;
  std::function<void(ContextId)> on_synchronized_;
  std::map<DeviceAddress, std::size_t> reserved_;
  std::map<std::uint64_t, Physical> physical_;
  std::map<DeviceAddress, Mapping> mapped_;
  std::map<int, std::size_t> held_;
  std::map<StreamId, Stream> streams_;
  std::map<StreamId, bool> destroyed_;
  std::map<std::uint64_t, std::pair<StreamId, std::uint64_t>> events_;
  std::map<std::uint64_t, DriverResult> failures_;
  DriverResult standing_[static_cast<int>(Operation::kCount)];
  std::uint64_t next_handle_ = 1, next_event_ = 1;
  std::uint64_t calls_ = 0, misuses_ = 0;
  std::uint64_t calls_of_[static_cast<int>(Operation::kCount)] = {};
  bool may_synchronize_ = true;
};

static_assert(StreamMemory<FakeStreamMemory>);

}  // namespace cuheap

#endif  // CUHEAP_ALLOCATOR_FAKE_STREAM_MEMORY_H_
