// SyncPool against an oracle that is as naive as can be: lists of everything that ever happened, searched from end to
// end.
#ifndef CUHEAP_TESTS_ALLOCATOR_SYNC_POOL_ORACLE_H_
#define CUHEAP_TESTS_ALLOCATOR_SYNC_POOL_ORACLE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "allocator/fake_device_memory.h"
#include "allocator/sync_pool.h"

namespace cuheap {

// One step. The arguments are taken modulo what there is, so every list of steps is legal.
struct PoolStep {
  enum Kind {
    kAllocateSmall,
    kAllocateMedium,
    kAllocateLarge,
    kFree,
    kBadFree,
    kBeginSynchronize,
    kEndSynchronize,
    kSynchronize,
    kReleaseIdle,
    kPin,
    kExport,
    kPeersEnabled,
    kDestroyContext,
    kFailSoon,
    kKinds
  };
  Kind kind = kFree;
  std::uint32_t a = 0, b = 0;
};
std::ostream& operator<<(std::ostream& out, const PoolStep& step);

// Runs steps on a pool over a FakeDeviceMemory and checks every answer, and after each step everything that can be
// asked.
class SyncPoolOracle {
 public:
  struct Setup {
    SyncPoolOptions pool;
    FakeDeviceMemory::Options memory;
    // A driver call that fails, by number; none if negative.
    std::int64_t fail_call = -1;
    int fail_code = 2;
  };

  explicit SyncPoolOracle(const Setup& setup);

  // The first broken promise in words, or empty. At the end everything is freed, synchronised and given back.
  std::string Run(const std::vector<PoolStep>& steps);
  std::uint64_t driver_calls() const { return memory_.calls(); }

 private:
  struct Live {
    PoolBlock block;
    bool pinned = false, exported = false;
  };
  struct Retired {  // freed by the program, still the pool's
    DeviceAddress begin = 0, end = 0;
    ContextId context = 0;
    std::uint64_t freed_at = 0;
    bool packed = false, pinned = false, exported = false, proven = false;
  };
  struct Synchronisation {
    ContextId context = 0;
    SyncTicket ticket = 0;
    std::uint64_t begun_at = 0;
  };
  struct DriverSegment {
    std::size_t bytes = 0;
    ContextId context = 0;
    bool packed = false;
  };

  static constexpr ContextId kContexts[3] = {0xA0, 0xB0, 0xC0};
  static int DeviceOf(ContextId context) { return context == 0xC0 ? 1 : 0; }

  void Step(const PoolStep& step);
  void Allocate(ContextId context, std::size_t bytes);
  void CheckTaken(const AllocateOutcome& outcome, ContextId context, std::size_t bytes);
  void CheckRefusal(const AllocateOutcome& outcome, ContextId context, std::size_t bytes);
  void Free(std::uint32_t choice);
  void BadFree(std::uint32_t choice, std::uint32_t kind);
  void EndSynchronize(std::size_t index, bool success);
  void DestroyContext(ContextId context);
  void SeeContext(ContextId context);
  void Watch(const FakeDeviceMemory::Call& call, bool after, DriverResult result);
  void SegmentGone(DeviceAddress address);
  void UpdateProven();
  bool IsProven(const Retired& retired) const;
  void CheckStats();
  void CheckDevice(int device);
  void Finish();
  void Fail(const std::string& what);

  Setup setup_;
  FakeDeviceMemory memory_;
  SyncPool pool_;
  std::string violation_;
  std::uint64_t now_ = 0;
  bool peers_ = false;
  bool failures_possible_ = false;
  std::vector<Live> live_;
  std::vector<Retired> retired_;
  std::vector<Synchronisation> under_way_;  // the program's
  std::vector<Synchronisation> completed_;  // of contexts that live
  std::vector<ContextId> known_;
  std::map<DeviceAddress, DriverSegment> segments_;
  std::uint64_t last_incarnation_ = 0;
};

}  // namespace cuheap

#endif  // CUHEAP_TESTS_ALLOCATOR_SYNC_POOL_ORACLE_H_
