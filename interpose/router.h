// The policy: what is served from the pool, what is forwarded, and what is recorded of it.
//
// One object a process. Handlers (handlers*.h) receive the real function as an argument and ask the router; nothing
// here looks anything up, so tests pass fakes. Every member may be called from any thread; no lock is held over a
// driver call.
//
// Note [As if we were not there]
// A forwarded call returns what the driver returned. A call that is answered from the pool first makes sure that the
// native one would have had a valid current context. After an error that ends a context for good, nothing is served any
// more: allocations are forwarded, and frees of the pool's blocks wait for the device, which tells its error.
#ifndef CUHEAP_INTERPOSE_ROUTER_H_
#define CUHEAP_INTERPOSE_ROUTER_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "allocator/sync_pool.h"
#include "interpose/block_filler.h"
#include "interpose/capture_watch.h"
#include "interpose/context_book.h"
#include "interpose/driver_functions.h"
#include "interpose/driver_memory.h"
#include "interpose/driver_timer.h"
#include "interpose/export_table.h"
#include "interpose/exposed_book.h"
#include "interpose/free_barrier.h"
#include "interpose/graphics_book.h"
#include "interpose/held_blocks.h"
#include "interpose/hook_list.h"
#include "interpose/import_book.h"
#include "interpose/options/option_parse.h"
#include "interpose/physical_book.h"
#include "interpose/recorder/recorder.h"
#include "interpose/stream_service.h"
#include "interpose/sync_helper.h"

namespace cuheap {

// Where the calling thread's driver calls go.
struct Place {
  CUresult result = CUDA_SUCCESS;  // what the driver says of the current context
  std::uint64_t context = 0;       // 0: none is current
  int device = -1;
  bool valid() const { return result == CUDA_SUCCESS && context != 0; }
};

// What to do with a call that lets others hold on to the memory at an address.
enum class Exposure {
  kNotOurs,      // forward it: the memory is the driver's, or will never be reused by the pool
  kNoLiveBlock,  // the pool's memory, but no block of the program's: answer as for an unknown address
  kRefused,      // a packed block: CUDA_ERROR_NOT_SUPPORTED, never wrong bytes
};

// True for errors after which the documentation promises the same error from every further call.
bool IsFatal(CUresult result);

class Router : private SyncListener, private SyncPoolObserver, private StreamPoolObserver {
 public:
  // `complete`: the driver has every function that serving needs; otherwise all is only recorded.
  Router(const DriverFunctions& driver, bool complete, const options::Options& options);
  Router(const Router&) = delete;
  Router& operator=(const Router&) = delete;

  const DriverFunctions& driver() const { return driver_; }
  CaptureWatch& captures() { return captures_; }
  FreeBarrier& barrier() { return barrier_; }
  PhysicalBook& physical() { return physical_; }
  ImportBook& imports() { return imports_; }
  GraphicsBook& graphics() { return graphics_; }
  ContextBook& contexts() { return contexts_; }
  ExposedBook& exposed() { return exposed_; }
  // Null in observe mode. In pass-through it stays, for the blocks that the program still holds.
  SyncPool* pool() { return pool_.get(); }
  // Null unless stream-ordered allocations are served.
  StreamService* streams() { return streams_.get(); }

  Place Where() const;
  // May an allocation in this place be served from the pool now?
  bool MayServe(const Place& place) const;

  // Calls real(args...) and looks at the result.
  template <class Real, class... Args>
  CUresult Forward(Real real, Args... args) {
    return Observe(real(args...));
  }
  // The same; if the driver has no memory, once more after the pool gave its idle segments back, and once more after a
  // bounded wait for those that are freed but not proven unused.
  template <class Real, class... Args>
  CUresult ForwardWithRescue(Real real, Args... args) {
    CUresult result = real(args...);
    if (result != CUDA_ERROR_OUT_OF_MEMORY) return Observe(result);
    for (Rescue rescue(*this); result == CUDA_ERROR_OUT_OF_MEMORY && rescue.Again();) result = real(args...);
    if (result == CUDA_SUCCESS) recorder::Count(journal::Counter::kOutOfMemoryRescues);
    return Observe(result);
  }
  // Tries to have memory for a call that the driver refused for want of it.
  class Rescue {
   public:
    explicit Rescue(Router& router) : router_(router) {}
    // True if the call is worth another try: something went back to the driver, by us or by another thread.
    bool Again();

   private:
    Router& router_;
    int attempts_ = 0;
    bool waited_ = false;
    bool unpinned_ = false;
    // Seen before the last try, in either pool.
    std::uint64_t releases_ = 0;
    std::uint64_t stream_releases_ = 0;
  };
  // Notes a fatal error; returns the result.
  CUresult Observe(CUresult result) {
    if (result != CUDA_SUCCESS && IsFatal(result)) PassThrough(result);
    return result;
  }
  bool passing_through() const { return pass_through_.load(std::memory_order_relaxed); }

  // What is recorded of a successful or failed allocation by the calling thread in its current place.
  void RecordAllocation(CUresult result, recorder::Allocation allocation, const Place& place);
  // Around a forwarded free: record, call, take back what was recorded if it failed. Returns the call's result.
  template <class Real, class... Args>
  CUresult ForwardFree(std::uint64_t address, journal::AllocationKind kind, std::uint64_t stream, Real real,
                       Args... args) {
    const recorder::FreeToken token = address == 0 ? recorder::FreeToken{} : Freeing(address, stream, kind);
    const std::optional<PoolBlock> exposed = exposed_.Take(address);
    const CUresult result = Timed(FreeCall(token.allocation.kind), [&] { return Forward(real, args...); });
    if (result == CUDA_ERROR_DEINITIALIZED) return result;  // see FreeAtTheEnd
    if (result != CUDA_SUCCESS) {
      if (exposed) exposed_.Add(*exposed);
      if (address != 0) recorder::FreeFailed(token, static_cast<std::uint16_t>(result));
    } else {
      HostMemoryFreed(token);
    }
    return result;
  }
  // A free that the driver refuses with `refusal`. If that is because it shuts down, the block is freed all the same:
  // the program did what it could, and that is no leak. Returns the refusal.
  CUresult FreeAtTheEnd(CUresult refusal, CUdeviceptr address);
  void HostMemoryFreed(const recorder::FreeToken& token) {
    if (token.known && IsHostVisible(token.allocation.kind)) barrier_.HostMemoryRemoved();
  }
  recorder::FreeToken Freeing(std::uint64_t address, std::uint64_t stream, journal::AllocationKind kind);

  // Serves a request from the pool; completes *allocation. `place` is valid and MayServe() said yes.
  CUresult Serve(const Place& place, CUdeviceptr* out, std::size_t bytes, recorder::Allocation& allocation);
  // A free of a block of the pool, or empty if the address is not the pool's. may_wait: as cuMemFree does, if the
  // free barrier asks for it.
  std::optional<CUresult> FreePoolBlock(CUdeviceptr address, std::uint64_t stream, bool may_wait);
  // Serves a stream-ordered request; completes *allocation. Empty: the call is the driver's. pool empty: the current
  // one.
  std::optional<CUresult> ServeInStream(HookId id, const Place& place, std::optional<CUmemoryPool> pool,
                                        CUstream stream, CUdeviceptr* out, std::size_t bytes,
                                        recorder::Allocation& allocation);
  // Frees of stream-ordered blocks of ours: in a stream, or now (cuMemFree). Empty if the address is not one's.
  std::optional<CUresult> FreeInStream(HookId id, CUdeviceptr address, CUstream stream);
  std::optional<CUresult> FreeStreamBlockNow(CUdeviceptr address);

  // A wait of the program for one stream; empty if it can prove nothing.
  struct StreamWait {
    StreamId stream = 0;
    std::uint64_t point = 0;
  };
  std::optional<StreamWait> BeginStreamWait(HookId id, CUstream stream);
  void StreamWaitCompleted(const StreamWait& wait);
  void StreamWent(StreamId stream, bool gone);

  // May work touch [address, address + bytes)? Not if it lies in memory of a pool and leaves the block of the program
  // that it begins in, counted in whole granules of 512 bytes: what is left of the last one is nobody else's.
  bool RangeAllowed(CUdeviceptr address, std::size_t bytes) const;
  // What the driver says of such a range where blocks are its own: what is wrong with the context comes first.
  CUresult RefuseRange() const;

  // A capture of the program is over with `result`, and gave `graph` out: what was freed meanwhile is kept as long as
  // that graph, or the one that it was begun into. See Note [As long as the graph].
  void CaptureOver(CaptureWatch::Key key, CUresult result, CUgraph graph);

  // What the pools could give back to the device now, in bytes.
  std::size_t IdleBytes(int device) const;

  // The memory at the address is about to be shared in ways whose end cannot be seen (IPC, dma-buf, allocation handle,
  // SYNC_MEMOPS): a dedicated block leaves the pool, so that its free is the driver's again; a packed one is refused,
  // or never reused.
  Exposure Expose(CUdeviceptr address, bool refuse_packed);
  // The live packed block that contains the address.
  std::optional<PoolBlock> PackedBlock(CUdeviceptr address) const;
  // Writes a handle by which other processes open the packed block, whose slab has the driver's handle `of_slab`. From
  // now on the block is never handed out again. NOT_SUPPORTED, with a note, if there can be no table.
  CUresult Share(CUdeviceptr address, const CUipcMemHandle& of_slab, CUipcMemHandle* handle);
  // Waits for the context's work as a native free may: the driver's result.
  CUresult SynchronizeForFree(std::uint64_t context);

  // The program's own context-wide synchronisation, made by call().
  template <class Call>
  CUresult ProgramSynchronizes(std::uint64_t context, Call&& call) {
    const Bracket bracket = BeginSynchronization(context);
    const std::uint64_t began = Now();
    const CUresult result = Observe(call());
    EndSynchronization(context, bracket, result);
    if (result == CUDA_SUCCESS) RecordSynchronization(context, Now() - began);
    return result;
  }

  // A context (or a device's primary one) is destroyed by call(). 0: not known which.
  template <class Call>
  CUresult ContextGoes(std::uint64_t context, Call&& call, bool only_if_inactive = false, int device = -1) {
    ContextGoing(context);
    const CUresult result = Observe(call());
    const bool gone = result == CUDA_SUCCESS && (!only_if_inactive || PrimaryInactive(device));
    ContextWent(context, gone);
    return result;
  }
  void ContextSeen(std::uint64_t context);

  // Is the stream capturing? NULL means the calling thread's own stream in functions for per-thread default streams.
  CUresult CaptureStatus(HookId id, CUstream stream, CUstreamCaptureStatus* status) const;
  // The program was told where a variable of loaded code lies. managed: it is one in managed memory for sure.
  void VariableFound(CUdeviceptr address, bool managed);
  // Bytes of the driver's allocation at the address, 0 if it does not tell.
  std::uint64_t DriverRange(CUdeviceptr address) const;

  // Records the device's facts, once. Called before an allocation, so that its free memory is what the program found.
  void DeviceSeen(int device);

  static bool IsHostVisible(journal::AllocationKind kind) {
    return kind == journal::AllocationKind::kManaged || kind == journal::AllocationKind::kHostPinned ||
           kind == journal::AllocationKind::kHostRegistered || kind == journal::AllocationKind::kHostVirtual;
  }

 private:
  CUresult WrongFree();
  Place AskWhere() const;
  Place WhereItWas() const;
  bool MayServeAnything(const Place& place) const;
  bool BeginsLiveBlock(CUdeviceptr address) const;
  // What the driver would say to a cuMemFree of the calling thread while captures are open, and the wait that it makes.
  CUresult AskForFreeDuringCapture(std::uint64_t context);
  void KeepForGraph(CUgraph graph, std::vector<CaptureWatch::Pin> pins);
  void NoteCacheInPoolMode(const recorder::Allocation& allocation);
  CUresult FreeStreamBlock(CUdeviceptr address, std::uint64_t handle, const StreamRef* stream);
  void TrimStreamPools();
  void PassThrough(CUresult reason);
  // Unused memory of both pools, and address space without any. False if there was none.
  bool GiveBackIdle(bool addresses_count);
  bool PrimaryInactive(int device) const;
  void ContextGoing(std::uint64_t context);
  void ContextWent(std::uint64_t context, bool gone);
  void RecordSynchronization(std::uint64_t context, std::uint64_t duration_ns);
  void RecordPoolState(int device);
  static std::uint64_t Now();

  Bracket BeginSynchronization(std::uint64_t context);
  void EndSynchronization(std::uint64_t context, Bracket bracket, CUresult result);

  // SyncListener: the helper's synchronisations.
  Bracket SynchronizationBegins(std::uint64_t context) override { return BeginSynchronization(context); }
  void SynchronizationEnds(std::uint64_t context, Bracket bracket, CUresult result) override;
  // SyncPoolObserver.
  void SegmentAllocated(ContextId context, int device, DeviceAddress address, std::size_t bytes) override;
  void SegmentFreeing(ContextId context, int device, DeviceAddress address, std::size_t bytes) override;

  // StreamPoolObserver.
  void StreamSegmentAllocated(int device, DeviceAddress address, std::size_t bytes) override;
  void StreamSegmentFreeing(int device, DeviceAddress address, std::size_t bytes) override;

  const options::Rule without_;  // none, but in tests
  const DriverFunctions driver_;
  CaptureWatch captures_;
  FreeBarrier barrier_;
  PhysicalBook physical_;
  ImportBook imports_;
  GraphicsBook graphics_;
  ContextBook contexts_;
  ExposedBook exposed_;
  ExportTable exports_;
  BlockFiller filler_;
  HeldBlocks held_;
  SyncHelper helper_;
  DriverMemory memory_;
  std::unique_ptr<SyncPool> pool_;
  std::unique_ptr<StreamService> streams_;
  const bool pool_mode_;
  const bool pin_captured_;
  const std::chrono::milliseconds fill_deadline_;
  std::atomic<bool> cache_noted_{false};
  std::atomic<std::uint64_t> stream_reserved_[64] = {};  // bytes, by device
  std::atomic<bool> pass_through_{false};
  std::atomic<std::uint64_t> devices_seen_{0};  // bit by ordinal
};

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_ROUTER_H_
