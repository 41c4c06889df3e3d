// The seam between StreamPool and CUDA: addresses and physical memory apart, and what is known of streams.
//
// Models: the driver (interpose/stream_driver.h), an in-memory fake (allocator/fake_stream_memory.h). device_memory.h
// is the same seam for whole driver allocations.
#ifndef CUHEAP_ALLOCATOR_STREAM_MEMORY_H_
#define CUHEAP_ALLOCATOR_STREAM_MEMORY_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "allocator/driver_result.h"
#include "allocator/stream_types.h"

namespace cuheap {

// A device that may use memory beside the one it lies on. flags: a CUmemAccess_flags (0 none, 1 read, 3 read and
// write).
struct AccessGrant {
  int device = 0;
  int flags = 3;
};

// Code 0 is success everywhere; bytes and addresses are multiples of kStreamPage.
//
// Reserve:      address space, nothing behind it. Source: cuMemAddressReserve. Unreserve: nothing is mapped in it.
// Create:       physical memory of the device. Source: cuMemCreate. Release: it is gone once it is unmapped.
// Map:          a handle, whole; nobody can use the range before SetAccess. Source: cuMemMap. Unmap: whole mappings;
//               the caller has proof that nothing uses them (unmapping need not wait). Source: cuMemUnmap.
// SetAccess:    who may use a range of whole mappings. Source: cuMemSetAccess.
// RecordEvent:  an event after all that is in the stream now; the stream never waits for it. Source: cuEventRecord.
// QueryEvent:   0 once it is reached; any other code: not known to be. Source: cuEventQuery.
// QueryStream:  0 if all that was in the stream has completed. Source: cuStreamQuery.
// Synchronize:  waits until all work submitted to the context has completed, at most for a time the model chooses; any
//               other code than 0: not proven.
// Threads:      all are called from any thread, at the same time, with no lock of the allocator held.
template <class M>
concept StreamMemory = requires(M& memory, const StreamRef& stream, int device, std::size_t bytes, std::uint64_t word,
                                std::uint64_t* out, const AccessGrant* grants, std::size_t count) {
  { memory.Reserve(bytes, out) } -> std::same_as<DriverResult>;
  { memory.Unreserve(word, bytes) } -> std::same_as<DriverResult>;
  { memory.Create(device, bytes, out) } -> std::same_as<DriverResult>;
  { memory.Release(word) } -> std::same_as<DriverResult>;
  { memory.Map(word, bytes, word) } -> std::same_as<DriverResult>;
  { memory.Unmap(word, bytes) } -> std::same_as<DriverResult>;
  { memory.SetAccess(word, bytes, grants, count) } -> std::same_as<DriverResult>;
  { memory.RecordEvent(stream, out) } -> std::same_as<DriverResult>;
  { memory.QueryEvent(word) } -> std::same_as<DriverResult>;
  { memory.DestroyEvent(word) } -> std::same_as<void>;
  { memory.QueryStream(stream) } -> std::same_as<DriverResult>;
  { memory.Synchronize(word) } -> std::same_as<DriverResult>;
};

// Any StreamMemory behind virtual functions, so that the pool's code need not be a template.
class StreamMemoryRef {
 public:
  template <StreamMemory M>
    requires(!std::same_as<std::remove_cv_t<M>, StreamMemoryRef>)
  StreamMemoryRef(M& memory) : self_(&memory), table_(&kTable<M>) {}  // NOLINT(google-explicit-constructor)

  DriverResult Reserve(std::size_t bytes, std::uint64_t* out) const { return table_->reserve(self_, bytes, out); }
  DriverResult Unreserve(std::uint64_t address, std::size_t bytes) const {
    return table_->unreserve(self_, address, bytes);
  }
  DriverResult Create(int device, std::size_t bytes, std::uint64_t* out) const {
    return table_->create(self_, device, bytes, out);
  }
  DriverResult Release(std::uint64_t handle) const { return table_->release(self_, handle); }
  DriverResult Map(std::uint64_t address, std::size_t bytes, std::uint64_t handle) const {
    return table_->map(self_, address, bytes, handle);
  }
  DriverResult Unmap(std::uint64_t address, std::size_t bytes) const { return table_->unmap(self_, address, bytes); }
  DriverResult SetAccess(std::uint64_t address, std::size_t bytes, const AccessGrant* grants, std::size_t count) const {
    return table_->set_access(self_, address, bytes, grants, count);
  }
  DriverResult RecordEvent(const StreamRef& stream, std::uint64_t* out) const {
    return table_->record_event(self_, stream, out);
  }
  DriverResult QueryEvent(std::uint64_t event) const { return table_->query_event(self_, event); }
  void DestroyEvent(std::uint64_t event) const { table_->destroy_event(self_, event); }
  DriverResult QueryStream(const StreamRef& stream) const { return table_->query_stream(self_, stream); }
  DriverResult Synchronize(std::uint64_t context) const { return table_->synchronize(self_, context); }

 private:
  using Word = std::uint64_t;
  struct Table {
    DriverResult (*reserve)(void*, std::size_t, Word*);
    DriverResult (*unreserve)(void*, Word, std::size_t);
    DriverResult (*create)(void*, int, std::size_t, Word*);
    DriverResult (*release)(void*, Word);
    DriverResult (*map)(void*, Word, std::size_t, Word);
    DriverResult (*unmap)(void*, Word, std::size_t);
    DriverResult (*set_access)(void*, Word, std::size_t, const AccessGrant*, std::size_t);
    DriverResult (*record_event)(void*, const StreamRef&, Word*);
    DriverResult (*query_event)(void*, Word);
    void (*destroy_event)(void*, Word);
    DriverResult (*query_stream)(void*, const StreamRef&);
    DriverResult (*synchronize)(void*, Word);
  };
  template <class M>
  static constexpr Table kTable = {
      [](void* m, std::size_t bytes, Word* out) { return static_cast<M*>(m)->Reserve(bytes, out); },
      [](void* m, Word address, std::size_t bytes) { return static_cast<M*>(m)->Unreserve(address, bytes); },
      [](void* m, int device, std::size_t bytes, Word* out) { return static_cast<M*>(m)->Create(device, bytes, out); },
      [](void* m, Word handle) { return static_cast<M*>(m)->Release(handle); },
      [](void* m, Word address, std::size_t bytes, Word h) { return static_cast<M*>(m)->Map(address, bytes, h); },
      [](void* m, Word address, std::size_t bytes) { return static_cast<M*>(m)->Unmap(address, bytes); },
      [](void* m, Word address, std::size_t bytes, const AccessGrant* grants, std::size_t count) {
        return static_cast<M*>(m)->SetAccess(address, bytes, grants, count);
      },
      [](void* m, const StreamRef& stream, Word* out) { return static_cast<M*>(m)->RecordEvent(stream, out); },
      [](void* m, Word event) { return static_cast<M*>(m)->QueryEvent(event); },
      [](void* m, Word event) { static_cast<M*>(m)->DestroyEvent(event); },
      [](void* m, const StreamRef& stream) { return static_cast<M*>(m)->QueryStream(stream); },
      [](void* m, Word context) { return static_cast<M*>(m)->Synchronize(context); },
  };

  void* self_;
  const Table* table_;
};

static_assert(StreamMemory<StreamMemoryRef>);

}  // namespace cuheap

#endif  // CUHEAP_ALLOCATOR_STREAM_MEMORY_H_
