// A DeviceMemory that only pretends: for tests, benchmarks and dry runs of code that uses the pool. Nothing behind the
// addresses can be read or written.
//
//   FakeDeviceMemory memory({.capacity = std::size_t{1} << 30});
//   SyncPool pool(memory, nullptr, {});
//   memory.FailCall(memory.calls() + 2, kDriverOutOfMemory);  // the third call from now
#ifndef CUHEAP_ALLOCATOR_FAKE_DEVICE_MEMORY_H_
#define CUHEAP_ALLOCATOR_FAKE_DEVICE_MEMORY_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "allocator/device_memory.h"
#include "allocator/driver_result.h"
#include "allocator/types.h"

namespace cuheap {

// Deterministic: always the lowest address that fits, so a freed address comes back as soon as it can.
// Threads: any, at the same time.
class FakeDeviceMemory {
 public:
  struct Options {
    std::size_t capacity = std::size_t{1} << 30;  // bytes
    // What an allocation takes is rounded up to this: 1 is a driver exact to the byte, 2 MiB the usual page.
    std::size_t granule = std::size_t{2} << 20;
    std::size_t alignment = 512;                             // of addresses; the granule, if that is larger
    DeviceAddress first_address = DeviceAddress{0x7} << 44;  // a multiple of the alignment
  };

  enum class Operation { kAllocate, kFree, kSynchronize };
  struct Call {
    Operation operation;
    DeviceAddress address;  // kAllocate: 0
    std::size_t bytes;      // kAllocate only
    ContextId context;      // kSynchronize; kAllocate: the current one, see set_current_context
  };
  // Called before and after each call takes effect, without a lock: it may call back into the pool or this object.
  using Watcher = std::function<void(const Call&, bool after, DriverResult result)>;

  FakeDeviceMemory() = default;
  explicit FakeDeviceMemory(Options options) : options_(options) {}

  DriverResult Allocate(std::size_t bytes, std::uint64_t* out) {
    const Call call{Operation::kAllocate, 0, bytes, current_context()};
    return Run(call, [&] { return DoAllocate(bytes, call.context, out); });
  }
  DriverResult Free(DeviceAddress address) {
    return Run({Operation::kFree, address, 0, 0}, [&] { return DoFree(address); });
  }
  DriverResult Synchronize(ContextId context) {
    return Run({Operation::kSynchronize, 0, 0, context}, [] { return kDriverSuccess; });
  }

  // The call of this number (they count from 0) fails with the result, without taking effect.
  void FailCall(std::uint64_t number, DriverResult result) {
    const std::lock_guard lock(mutex_);
    failures_[number] = result;
  }
  // Every later call of the kind fails with the result, until it is called again with kDriverSuccess.
  void FailAll(Operation operation, DriverResult result) {
    const std::lock_guard lock(mutex_);
    standing_[static_cast<int>(operation)] = result;
  }
  void set_watcher(Watcher watcher) { watcher_ = std::move(watcher); }

  // The context that later allocations of the calling thread belong to; 0 until it is set.
  void set_current_context(ContextId context) {
    const std::lock_guard lock(mutex_);
    current_contexts_[std::this_thread::get_id()] = context;
  }
  // The context's memory is gone, as with cuCtxDestroy.
  void DestroyContext(ContextId context) {
    const std::lock_guard lock(mutex_);
    std::erase_if(live_, [context](const auto& entry) { return entry.second.context == context; });
  }

  std::uint64_t calls() const {
    const std::lock_guard lock(mutex_);
    return calls_;
  }
  std::uint64_t calls(Operation operation) const {
    const std::lock_guard lock(mutex_);
    return calls_of_[static_cast<int>(operation)];
  }
  // Frees of addresses that were not allocated: double frees among them.
  std::uint64_t invalid_frees() const {
    const std::lock_guard lock(mutex_);
    return invalid_frees_;
  }
  // Allocations held, address and bytes as asked for.
  std::vector<std::pair<DeviceAddress, std::size_t>> Live() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::pair<DeviceAddress, std::size_t>> live;
    live.reserve(live_.size());
    for (const auto& [address, allocation] : live_) live.emplace_back(address, allocation.bytes);
    return live;
  }
  // Bytes held, as asked for.
  std::size_t LiveBytes() const {
    std::size_t sum = 0;
    for (const auto& [address, bytes] : Live()) sum += bytes;
    return sum;
  }

 private:
  struct Allocation {
    std::size_t bytes;  // as asked for
    ContextId context;
  };

  template <class Effect>
  DriverResult Run(const Call& call, Effect effect) {
    if (watcher_) watcher_(call, false, kDriverSuccess);
    DriverResult result;
    {
      const std::lock_guard lock(mutex_);
      const auto failure = failures_.find(calls_++);
      ++calls_of_[static_cast<int>(call.operation)];
      result = failure != failures_.end() ? failure->second : standing_[static_cast<int>(call.operation)];
      if (result.ok()) result = effect();
    }
    if (watcher_) watcher_(call, true, result);
    return result;
  }

  ContextId current_context() const {
    const std::lock_guard lock(mutex_);
    const auto found = current_contexts_.find(std::this_thread::get_id());
    return found == current_contexts_.end() ? 0 : found->second;
  }

  std::size_t Rounded(std::size_t bytes) const {
    return (bytes + options_.granule - 1) / options_.granule * options_.granule;
  }

  DriverResult DoAllocate(std::size_t bytes, ContextId context, std::uint64_t* out) {
    if (bytes == 0) return kDriverInvalidValue;
    std::size_t used = 0;
    for (const auto& [address, allocation] : live_) used += Rounded(allocation.bytes);
    if (bytes > options_.capacity || Rounded(bytes) > options_.capacity - std::min(options_.capacity, used)) {
      return kDriverOutOfMemory;
    }
    // Addresses are plenty, as on a GPU, where memory is paged: only the sum of sizes is bounded.
    const std::size_t alignment = std::max(options_.alignment, options_.granule);
    DeviceAddress address = options_.first_address;
    for (const auto& [base, allocation] : live_) {
      if (base - address >= bytes) break;
      address = (base + allocation.bytes + alignment - 1) / alignment * alignment;
    }
    live_[address] = {bytes, context};
    *out = address;
    return kDriverSuccess;
  }

  DriverResult DoFree(DeviceAddress address) {
    if (live_.erase(address) == 1) return kDriverSuccess;
    ++invalid_frees_;
    return kDriverInvalidValue;
  }

  const Options options_;
  Watcher watcher_;  // set before threads start
  mutable std::mutex mutex_;
  std::map<DeviceAddress, Allocation> live_;
  std::map<std::uint64_t, DriverResult> failures_;
  DriverResult standing_[3];
  std::map<std::thread::id, ContextId> current_contexts_;
  std::uint64_t calls_ = 0;
  std::uint64_t calls_of_[3] = {0, 0, 0};
  std::uint64_t invalid_frees_ = 0;
};

static_assert(DeviceMemory<FakeDeviceMemory>);

}  // namespace cuheap

#endif  // CUHEAP_ALLOCATOR_FAKE_DEVICE_MEMORY_H_
