// Runs lists of operations on a StreamPool over FakeStreamMemory and checks each outcome against what streams have
// really done, which the pool can only find out by asking.
#ifndef CUHEAP_TESTS_ALLOCATOR_STREAM_POOL_ORACLE_H_
#define CUHEAP_TESTS_ALLOCATOR_STREAM_POOL_ORACLE_H_

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "allocator/fake_stream_memory.h"
#include "allocator/stream_pool.h"

namespace cuheap {

struct StreamStep {
  enum Kind {
    kAllocateSmall,
    kAllocateMedium,
    kAllocateLarge,
    kFree,       // in the stream it was allocated in
    kFreeCross,  // in another one, which waits for that
    kFreeNow,    // cuMemFree, when its stream has done its work
    kBadFree,
    kSubmit,
    kComplete,
    kSynchronizeStream,
    kSynchronizeContext,
    kBeginSynchronize,
    kEndSynchronize,
    kReleaseIdle,
    kTrim,
    kThreshold,
    kDestroyStream,
    kDestroyContext,
    kDestroyPool,
    kPin,
    kFailSoon,
    kMaySynchronize,
    kKinds
  };
  Kind kind = kSubmit;
  std::uint32_t a = 0, b = 0;
};
std::ostream& operator<<(std::ostream& out, const StreamStep& step);

class StreamPoolOracle {
 public:
  struct Setup {
    std::size_t capacity = std::size_t{1} << 30;
    StreamPoolOptions pool;
    int streams = 3;
    std::int64_t fail_call = -1;  // of the memory
  };
  explicit StreamPoolOracle(const Setup& setup);

  // The first broken promise in words; empty if all were kept.
  std::string Run(const std::vector<StreamStep>& steps);
  std::uint64_t driver_calls() const { return memory_.calls(); }
  // Requests served by memory of other streams after asking or waiting.
  std::uint64_t reuses() const { return reuses_; }

 private:
  struct Live {
    DeviceAddress address;
    std::size_t bytes, block_bytes;
    StreamId stream;
    StreamPoolId pool;
    bool pinned;
  };
  // A range that may be in use until `stream` has completed `position`.
  struct Dirty {
    DeviceAddress address, end;
    StreamId stream;
    std::uint64_t position;
  };
  struct Begun {
    std::uint64_t point;
    StreamId stream;
    std::map<StreamId, std::uint64_t> positions;
  };

  void Do(const StreamStep& step);
  void Allocate(std::uint32_t a, std::size_t bytes);
  void Free(StreamStep::Kind kind, std::uint32_t a, std::uint32_t b);
  void BadFree(std::uint32_t a);
  void Complete(StreamId stream, std::uint64_t position);
  void SynchronizeStream(StreamId stream);
  void SynchronizeContext();
  void DestroyStream(std::uint32_t a);
  void DestroyContext();
  void DestroyPool(std::uint32_t a);
  void CheckUnmap(DeviceAddress address, std::size_t bytes);
  void CheckBooks();
  void Fail(const std::string& text) {
    if (violation_.empty()) violation_ = text;
  }
  StreamRef NewStream();
  bool Running(const Dirty& dirty) const { return memory_.Completed(dirty.stream) < dirty.position; }
  Live Take(std::uint32_t a);

  const Setup setup_;
  FakeStreamMemory memory_;
  std::unique_ptr<StreamPool> pool_;
  std::vector<StreamRef> streams_;
  std::vector<StreamPoolId> pools_;
  std::vector<Live> live_;
  std::vector<Dirty> dirty_;
  std::vector<Dirty> pinned_;
  std::vector<Begun> begun_;
  // Work of a stream that waits for another: (stream, position) -> (stream, position).
  std::vector<std::pair<Dirty, Dirty>> waits_;
  StreamId next_stream_ = 1;
  ContextId context_ = 0xC1;
  std::uint64_t reuses_ = 0;
  bool may_synchronize_ = true;
  std::string violation_;
};

}  // namespace cuheap

#endif  // CUHEAP_TESTS_ALLOCATOR_STREAM_POOL_ORACLE_H_
