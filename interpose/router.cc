#include "interpose/router.h"

#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "interpose/thread_guard.h"

namespace cuheap {
namespace {

// CUresult values after which, by their documentation, "the context cannot be used any more" or "any further CUDA work
// will return the same error". Source: CUDA Driver API, CUresult.
constexpr CUresult kFatal[] = {
    CUDA_ERROR_DEINITIALIZED,
    CUDA_ERROR_ECC_UNCORRECTABLE,
    CUDA_ERROR_NVLINK_UNCORRECTABLE,
    CUDA_ERROR_CONTAINED,
    CUDA_ERROR_ILLEGAL_ADDRESS,
    CUDA_ERROR_LAUNCH_TIMEOUT,
    CUDA_ERROR_ASSERT,
    CUDA_ERROR_HARDWARE_STACK_ERROR,
    CUDA_ERROR_ILLEGAL_INSTRUCTION,
    CUDA_ERROR_MISALIGNED_ADDRESS,
    CUDA_ERROR_INVALID_ADDRESS_SPACE,
    CUDA_ERROR_INVALID_PC,
    CUDA_ERROR_LAUNCH_FAILED,
    CUDA_ERROR_TENSOR_MEMORY_LEAK,
    CUDA_ERROR_MPS_CLIENT_TERMINATED,
    CUDA_ERROR_EXTERNAL_DEVICE,
};

// While this thread tells the pool of a context that went: its segments are recorded as gone with it already.
[[gnu::tls_model("initial-exec")]] constinit thread_local bool g_context_went = false;

SyncPoolOptions PoolOptions(const options::Options& options) {
  SyncPoolOptions pool;
  pool.pack = options.pack;
  pool.quarantine = !options.test_no_quarantine;
  pool.quarantine_limit_bytes = options.quarantine_limit;
  pool.await_releases = options.test_without != options::Rule::kReleases;
  return pool;
}

// Without the rule for captures our calls are as unsafe as anyone's.
DriverFunctions Functions(DriverFunctions driver, options::Rule without) {
  if (without == options::Rule::kCapture) driver.cuThreadExchangeStreamCaptureMode = nullptr;
  return driver;
}

}  // namespace

bool IsFatal(CUresult result) {
  for (const CUresult fatal : kFatal) {
    if (result == fatal) return true;
  }
  return false;
}

Router::Router(const DriverFunctions& driver, bool complete, const options::Options& options)
    : without_(options.test_without),
      driver_(Functions(driver, without_)),
      captures_(without_ == options::Rule::kCapture),
      barrier_(options.free_barrier),
      filler_(driver_, captures_, options.fill),
      helper_(driver_, captures_, *this),
      memory_(driver_, helper_, LongestWait(options)),
      pool_mode_(options.mode == options::Mode::kPool),
      pin_captured_(!options.test_no_capture_pins),
      fill_deadline_(options.sync_deadline_ms) {
  if (complete && options.mode != options::Mode::kObserve) {
    pool_ = std::make_unique<SyncPool>(memory_, static_cast<SyncPoolObserver*>(this), PoolOptions(options));
    if (options.stream_pool && driver_.HasStreamOrdered()) {
      streams_ =
          std::make_unique<StreamService>(driver_, captures_, helper_, static_cast<StreamPoolObserver*>(this), options);
    }
    held_.Use(pool_.get(), streams_ != nullptr ? &streams_->pool() : nullptr);
  }
}

Place Router::Where() const {
  if (without_ == options::Rule::kContextCheck) [[unlikely]]
    return WhereItWas();
  return AskWhere();
}

// For tests only: where the thread's last good call was, whatever has become of the context since.
Place Router::WhereItWas() const {
  [[gnu::tls_model("initial-exec")]] static constinit thread_local Place last;
  const Place now = AskWhere();
  if (now.valid()) last = now;
  return last.valid() ? last : now;
}

Place Router::AskWhere() const {
  Place place;
  if (driver_.cuCtxGetCurrent == nullptr || driver_.cuCtxGetDevice == nullptr) return place;
  CUcontext context = nullptr;
  place.result = driver_.cuCtxGetCurrent(&context);
  if (place.result != CUDA_SUCCESS || context == nullptr) return place;
  place.context = reinterpret_cast<std::uint64_t>(context);
  CUdevice device = -1;
  place.result = driver_.cuCtxGetDevice(&device);
  if (place.result == CUDA_SUCCESS) place.device = device;
  return place;
}

bool Router::MayServe(const Place& place) const { return pool_ != nullptr && MayServeAnything(place); }

bool Router::MayServeAnything(const Place& place) const {
  return !passing_through() && !captures_.AnyOpen() && place.valid() && !contexts_.IsGreen(place.context);
}

void Router::PassThrough(CUresult reason) {
  if (without_ == options::Rule::kPassThrough) return;
  if (pass_through_.exchange(true, std::memory_order_relaxed)) return;
  char text[96];
  std::snprintf(text, sizeof(text), "the driver reported error %d, after which nothing is served from the pool",
                static_cast<int>(reason));
  recorder::Note(journal::NoteCode::kPassThrough, text, static_cast<std::uint64_t>(reason));
}

bool Router::GiveBackIdle(bool addresses_count) {
  if (pool_ == nullptr || captures_.AnyOpen()) return false;
  bool any = pool_->ReleaseIdle() != 0;
  if (streams_ == nullptr) return any;
  any |= streams_->pool().ReleaseIdle() != 0;
  // Address space can be what the driver is short of. A request that fails may reserve it anew each time.
  return (streams_->pool().FreeAddressSpace() && addresses_count) || any;
}

bool Router::Rescue::Again() {
  constexpr int kAttempts = 100;  // what goes back may be another thread's before it is ours
  SyncPool* const pool = router_.pool();
  if (pool == nullptr || router_.captures_.AnyOpen() || ++attempts_ > kAttempts) return false;
  if (router_.without_ == options::Rule::kRescue) return false;
  bool gone_back = router_.GiveBackIdle(/*addresses_count=*/attempts_ == 1);
  // Whether another thread's release came before the call or after it is not known the first time.
  StreamPool* const streams = router_.streams_ != nullptr ? &router_.streams_->pool() : nullptr;
  if (!gone_back) gone_back = pool->releases().ChangedSince(releases_);
  if (!gone_back && streams != nullptr) gone_back = streams->releases().ChangedSince(stream_releases_);
  if (!gone_back && !unpinned_) {
    // Natively what was freed during a capture is the device's, whatever graphs there are.
    unpinned_ = true;
    if (router_.held_.ReleaseAll() != 0) {
      recorder::Note(
          journal::NoteCode::kCapture,
          "the device ran out of memory: what was freed during captures was given up, as natively it is at once");
      gone_back = router_.GiveBackIdle(/*addresses_count=*/false);
    }
  }
  if (!gone_back && !waited_ && !router_.passing_through()) {
    waited_ = true;
    gone_back = pool->ReleaseAfterWaiting(std::nullopt) != 0;
  }
  releases_ = pool->releases().ended();
  if (streams != nullptr) stream_releases_ = streams->releases().ended();
  return gone_back;
}

std::size_t Router::IdleBytes(int device) const {
  return (pool_ != nullptr ? pool_->IdleBytes(device) + pool_->WaitingBytes(device) + held_.Bytes(device) : 0) +
         (streams_ != nullptr ? streams_->pool().IdleBytes(device) : 0);
}

bool Router::RangeAllowed(CUdeviceptr address, std::size_t bytes) const {
  constexpr std::size_t kGranule = 512;
  const auto inside = [&](const auto& block) {
    if (!block) return false;
    const std::size_t room = (block->bytes + kGranule - 1) / kGranule * kGranule;
    const std::size_t offset = address - block->address;
    return bytes <= room - offset;
  };
  if (pool_ == nullptr || bytes == 0 || without_ == options::Rule::kRange) return true;
  if (streams_ != nullptr && streams_->pool().Owns(address)) return inside(streams_->pool().Find(address));
  return !pool_->Owns(address) || inside(pool_->Find(address));
}

CUresult Router::RefuseRange() const {
  const Place place = Where();
  if (place.result != CUDA_SUCCESS) return place.result;
  return place.context == 0 ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_VALUE;
}

void Router::RecordAllocation(CUresult result, recorder::Allocation allocation, const Place& place) {
  allocation.context = place.context;
  if (place.device >= 0 && allocation.device == 0xFFFF) allocation.device = static_cast<std::uint16_t>(place.device);
  if (captures_.AnyOpen()) allocation.flags |= journal::kDuringCapture;
  if (result != CUDA_SUCCESS) {
    recorder::AllocationFailed(allocation, static_cast<std::uint16_t>(result));
    return;
  }
  DeviceSeen(place.device);
  if (IsHostVisible(allocation.kind)) barrier_.HostMemoryAdded();
  if (pool_mode_) NoteCacheInPoolMode(allocation);
  if ((allocation.flags & journal::kServedFromPool) == 0) recorder::Count(journal::Counter::kForwarded);
  recorder::Allocated(allocation);
}

// PyTorch's own cache asks for whole segments, by cuMemAlloc or as mapped memory: --pool did not take.
void Router::NoteCacheInPoolMode(const recorder::Allocation& allocation) {
  if ((allocation.flags & journal::kCallerIsPyTorch) == 0) return;
  if (allocation.kind != journal::AllocationKind::kDevice && allocation.kind != journal::AllocationKind::kVirtual)
    return;
  if (cache_noted_.exchange(true, std::memory_order_relaxed)) return;
  const char* wins = std::getenv("PYTORCH_CUDA_ALLOC_CONF");
  const char* general = std::getenv("PYTORCH_ALLOC_CONF");
  char text[220];
  if (wins != nullptr || general != nullptr) {
    std::snprintf(text, sizeof(text),
                  "PyTorch uses its own cache all the same: %s is now \"%.100s\" (set by the program?)",
                  wins != nullptr ? "PYTORCH_CUDA_ALLOC_CONF" : "PYTORCH_ALLOC_CONF", wins != nullptr ? wins : general);
  } else {
    std::snprintf(text, sizeof(text), "PyTorch uses its own cache all the same: PYTORCH_CUDA_ALLOC_CONF is not set");
  }
  recorder::Note(journal::NoteCode::kPoolNotTaken, text);
}

recorder::FreeToken Router::Freeing(std::uint64_t address, std::uint64_t stream, journal::AllocationKind kind) {
  const std::uint16_t flags = captures_.AnyOpen() ? journal::kDuringCapture : std::uint16_t{0};
  return recorder::Freeing(address, flags, stream, 0, kind);
}

bool Router::BeginsLiveBlock(CUdeviceptr address) const {
  const std::optional<PoolBlock> block = pool_->Find(address);
  return block && block->address == address;
}

CUresult Router::Serve(const Place& place, CUdeviceptr* out, std::size_t bytes, recorder::Allocation& allocation) {
  ContextSeen(place.context);
  AllocateOutcome served = pool_->Allocate(place.context, place.device, bytes);
  if (served.result == kDriverOutOfMemory && streams_ != nullptr) {  // what the other pool keeps is no reason to fail
    for (Rescue rescue(*this); served.result == kDriverOutOfMemory && rescue.Again();) {
      served = pool_->Allocate(place.context, place.device, bytes);
    }
    if (served.result.ok()) recorder::Count(journal::Counter::kOutOfMemoryRescues);
  }
  RecordPoolState(place.device);
  if (!served.result.ok()) return Observe(static_cast<CUresult>(served.result.code));
  const bool hit =
      served.source == AllocationSource::kReady || served.source == AllocationSource::kAfterSynchronization;
  recorder::Count(hit ? journal::Counter::kPoolHits : journal::Counter::kPoolMisses);
  *out = served.block.address;
  if (served.source != AllocationSource::kUnpooled) {
    allocation.flags |= journal::kServedFromPool;
    allocation.reserved_bytes = served.block.block_bytes;
  }
  if (filler_.on()) Observe(filler_.FillNow(place.context, *out, bytes));
  return CUDA_SUCCESS;
}

CUresult Router::FreeAtTheEnd(CUresult refusal, CUdeviceptr address) {
  if (refusal == CUDA_ERROR_DEINITIALIZED) Freeing(address, 0, journal::AllocationKind::kNone);
  return refusal;
}

std::optional<CUresult> Router::FreePoolBlock(CUdeviceptr address, std::uint64_t stream, bool may_wait) {
  if (pool_ == nullptr || address == 0 || !pool_->Owns(address)) return std::nullopt;
  // A free in a stream happens in the stream's context, of which the caller has asked: none need be current.
  if (may_wait) {
    const Place place = Where();
    if (place.result != CUDA_SUCCESS) return FreeAtTheEnd(place.result, address);
    if (place.context == 0) return CUDA_ERROR_INVALID_CONTEXT;
  }
  std::uint64_t pinned = 0;
  if (captures_.AnyOpen() && BeginsLiveBlock(address)) {
    const std::optional<PoolBlock> block = pool_->Find(address);
    if (may_wait && block) {
      if (const CUresult verdict = AskForFreeDuringCapture(block->context); verdict != CUDA_SUCCESS) return verdict;
    }
    // What was captured with this address may be replayed as long as the graph lives.
    if (pin_captured_) pinned = pool_->PinForNow(address);
  }
  // Recorded first: once the pool has it, another thread may be given the address.
  const recorder::FreeToken token = Freeing(address, stream, journal::AllocationKind::kNone);
  const FreeOutcome freed = pool_->Free(address);
  if (pinned != 0 && freed.status == FreeStatus::kFreed) {
    captures_.Hold(held_.Hold(freed.block));
  } else if (pinned != 0) {
    pool_->Unpin(address, pinned);  // another thread was faster
  }
  if (freed.status != FreeStatus::kFreed) {
    if (token.known) recorder::FreeFailed(token, CUDA_ERROR_INVALID_VALUE);
    if (freed.status == FreeStatus::kNotOurs) return std::nullopt;
    return WrongFree();
  }
  exports_.Withdraw(address);
  exposed_.Freed(address);
  RecordPoolState(freed.block.device);
  if (captures_.AnyOpen()) return CUDA_SUCCESS;
  if (passing_through() && may_wait) {
    // Natively the current context's error comes first, whichever context the block is of.
    const CUresult current = SynchronizeForFree(Where().context);
    return current != CUDA_SUCCESS ? current : SynchronizeForFree(freed.block.context);
  }
  if (!may_wait) return CUDA_SUCCESS;
  const bool full = freed.wants_barrier && !barrier_.never();
  if (full || barrier_.Needed(freed.block.context)) return SynchronizeForFree(freed.block.context);
  return CUDA_SUCCESS;
}

// What is wrong with the context comes first.
CUresult Router::WrongFree() {
  if (!passing_through()) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = SynchronizeForFree(Where().context);
  return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
}

Exposure Router::Expose(CUdeviceptr address, bool refuse_packed) {
  if (pool_ == nullptr || !pool_->Owns(address)) return Exposure::kNotOurs;
  const std::optional<PoolBlock> block = pool_->Find(address);
  if (!block) return Exposure::kNoLiveBlock;
  if (!block->packed) {
    exposed_.Add(*block);
    if (pool_->Disown(block->address)) return Exposure::kNotOurs;
    exposed_.Take(block->address);
  }
  if (refuse_packed) {
    recorder::Note(journal::NoteCode::kIpcOfPackedBlock,
                   "a handle of a block that shares its driver allocation was asked for and refused; CUHEAP_PACK=0 "
                   "gives every block an allocation of its own",
                   address, block->bytes);
    return Exposure::kRefused;
  }
  pool_->Export(address);  // never handed out again; the slab goes back once nothing else in it is used
  return Exposure::kNotOurs;
}

std::optional<PoolBlock> Router::PackedBlock(CUdeviceptr address) const {
  std::optional<PoolBlock> block = pool_ == nullptr ? std::nullopt : pool_->Find(address);
  if (block && !block->packed) block.reset();
  return block;
}

CUresult Router::Share(CUdeviceptr address, const CUipcMemHandle& of_slab, CUipcMemHandle* handle) {
  const std::optional<PoolBlock> block = pool_->Export(address);
  if (!block) return CUDA_ERROR_INVALID_VALUE;  // freed meanwhile
  if (exports_.Publish(*block, of_slab, handle)) return CUDA_SUCCESS;
  recorder::Note(journal::NoteCode::kIpcOfPackedBlock,
                 "a handle of a block that shares its driver allocation was refused: there is no room for the table "
                 "that other processes would read; CUHEAP_PACK=0 gives every block an allocation of its own",
                 address, block->bytes);
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult Router::SynchronizeForFree(std::uint64_t context) {
  const RelaxedCapture relaxed(driver_);
  const ContextScope scope(driver_, context);
  if (scope.result() != CUDA_SUCCESS) return Observe(scope.result());
  const Bracket bracket = BeginSynchronization(context);
  const CUresult result = Timed(journal::DriverCall::kFreeWait, [&] {
    return Observe(ProgramsCall<CUresult (*)()>(driver_.cuCtxSynchronize)());
  });
  EndSynchronization(context, bracket, result);
  recorder::Count(journal::Counter::kPoolSynchronizations);
  return result;
}

SyncListener::Bracket Router::BeginSynchronization(std::uint64_t context) {
  Bracket bracket;
  bracket.mark = barrier_.SynchronizationBegins();
  if (pool_ != nullptr && context != 0) bracket.ticket = pool_->BeginSynchronize(context);
  if (streams_ != nullptr && streams_->used()) bracket.point = streams_->pool().BeginSynchronize();
  return bracket;
}

void Router::EndSynchronization(std::uint64_t context, Bracket bracket, CUresult result) {
  if (context == 0) return;
  if (pool_ != nullptr) pool_->EndSynchronize(context, bracket.ticket, result == CUDA_SUCCESS);
  if (result != CUDA_SUCCESS) return;
  barrier_.SynchronizationCompleted(context, bracket.mark);
  if (streams_ == nullptr || !streams_->used()) return;
  if (streams_->pool().ContextCompleted(context, bracket.point)) TrimStreamPools();
}

void Router::SynchronizationEnds(std::uint64_t context, Bracket bracket, CUresult result) {
  EndSynchronization(context, bracket, result);
  recorder::Count(journal::Counter::kPoolSynchronizations);
}

void Router::RecordSynchronization(std::uint64_t context, std::uint64_t duration_ns) {
  recorder::Count(journal::Counter::kContextSynchronizations);
  const Place place = Where();
  const auto device = static_cast<std::uint16_t>(place.device >= 0 && place.context == context ? place.device : 0xFFFF);
  // The call's own stack: a training loop is known by the line that waits once a step.
  recorder::Synchronized(device, context, duration_ns, recorder::CaptureStack().id);
  if (device != 0xFFFF) RecordPoolState(device);
}

void Router::ContextSeen(std::uint64_t context) {
  if (pool_ == nullptr || context == 0) return;
  pool_->ContextSeen(context);
  // With unified addresses any copy can reach another context's memory, and its pointers are not looked up here.
  if (contexts_.Seen(context) > 1) pool_->PeersEnabled();
}

void Router::ContextGoing(std::uint64_t context) {
  if (context == 0) return;
  if (pool_ != nullptr) pool_->ContextDestroying(context);
  if (streams_ != nullptr) streams_->pool().ContextDestroying(context);
  helper_.Close(context);
  memory_.Leave(context);
}

void Router::ContextWent(std::uint64_t context, bool gone) {
  if (context == 0) return;
  if (gone) recorder::ContextDestroyed(context);
  if (pool_ != nullptr) {
    if (gone) {
      g_context_went = true;
      pool_->ContextDestroyed(context);
      g_context_went = false;
    } else {
      pool_->ContextKept(context);
    }
  }
  if (streams_ != nullptr && gone) {
    streams_->pool().ContextDestroyed(context);
    streams_->ContextGone(context);
  } else if (streams_ != nullptr) {
    streams_->pool().ContextKept(context);
  }
  helper_.Reopen(context);
  if (!gone) return;
  barrier_.ContextDestroyed(context);
  exposed_.ContextDestroyed(context);
  exports_.ContextDestroyed(context);
  imports_.ContextDestroyed(context);
  held_.ContextGone(context);
  contexts_.Gone(context);
  filler_.ContextGone(context);
}

bool Router::PrimaryInactive(int device) const {
  if (driver_.cuDevicePrimaryCtxGetState == nullptr) return false;
  unsigned int flags = 0;
  int active = 1;
  return driver_.cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && active == 0;
}

void Router::DeviceSeen(int device) {
  if (device < 0 || device >= 64) return;
  const std::uint64_t bit = std::uint64_t{1} << device;
  if ((devices_seen_.load(std::memory_order_relaxed) & bit) != 0) return;
  if ((devices_seen_.fetch_or(bit, std::memory_order_relaxed) & bit) != 0) return;
  char name[64] = "";
  std::size_t total = 0;
  std::size_t free_now = 0;
  int major = 0;
  int minor = 0;
  int pageable = 0;
  CUuuid uuid = {};
  if (driver_.cuDeviceGetName != nullptr) driver_.cuDeviceGetName(name, sizeof(name), device);
  if (driver_.cuDeviceTotalMem_v2 != nullptr) driver_.cuDeviceTotalMem_v2(&total, device);
  if (driver_.cuDeviceGetAttribute != nullptr) {
    driver_.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    driver_.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    driver_.cuDeviceGetAttribute(&pageable, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, device);
  }
  if (driver_.cuDeviceGetUuid_v2 != nullptr) driver_.cuDeviceGetUuid_v2(&uuid, device);
  if (driver_.cuMemGetInfo_v2 != nullptr && !captures_.AnyOpen()) {
    std::size_t total_now = 0;
    if (driver_.cuMemGetInfo_v2(&free_now, &total_now) != CUDA_SUCCESS) free_now = 0;
  }
  // Kernels can write all host memory there: every free may be waited for by a reader.
  if (pageable != 0) barrier_.HostMemoryAdded();
  unsigned char bytes[16];
  static_assert(sizeof(bytes) == sizeof(uuid.bytes));
  std::memcpy(bytes, uuid.bytes, sizeof(bytes));
  name[sizeof(name) - 1] = '\0';
  recorder::DeviceSeen(static_cast<std::uint16_t>(device), name, total, static_cast<std::uint32_t>(major * 10 + minor),
                       bytes, free_now);
}

void Router::RecordPoolState(int device) {
  if (pool_ == nullptr || device < 0) return;
  const SyncPoolStats stats = pool_->Stats(device);
  const std::uint64_t of_streams = device < 64 ? stream_reserved_[device].load(std::memory_order_relaxed) : 0;
  recorder::PoolState(static_cast<std::uint16_t>(device), stats.reserved + of_streams, stats.quarantined);
}

void Router::SegmentAllocated(ContextId context, int device, DeviceAddress address, std::size_t bytes) {
  recorder::Allocation segment;
  segment.address = address;
  segment.bytes = bytes;
  segment.context = context;
  segment.device = static_cast<std::uint16_t>(device);
  segment.kind = journal::AllocationKind::kPoolSegment;
  recorder::SegmentAllocated(segment);
}

void Router::SegmentFreeing(ContextId, int, DeviceAddress address, std::size_t) {
  if (!g_context_went) recorder::SegmentFreeing(address);
}

CUresult Router::CaptureStatus(HookId id, CUstream stream, CUstreamCaptureStatus* status) const {
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (driver_.cuStreamIsCapturing == nullptr) return CUDA_SUCCESS;
  if (stream == nullptr && IsPerThread(id)) stream = CU_STREAM_PER_THREAD;
  return driver_.cuStreamIsCapturing(stream, status);
}

// Asked each time until one is managed, not once an address: modules go unseen, and others come where they were.
void Router::VariableFound(CUdeviceptr address, bool managed) {
  if (pool_ == nullptr || barrier_.HasLastingHostMemory()) return;
  if (!managed && driver_.cuPointerGetAttribute != nullptr) {
    unsigned int is_managed = 0;
    managed = driver_.cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address) == CUDA_SUCCESS &&
              is_managed != 0;
  }
  if (managed) barrier_.LastingHostMemoryFound();
}

std::uint64_t Router::DriverRange(CUdeviceptr address) const {
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  if (driver_.cuMemGetAddressRange_v2 == nullptr) return 0;
  return driver_.cuMemGetAddressRange_v2(&base, &bytes, address) == CUDA_SUCCESS ? bytes : 0;
}

std::uint64_t Router::Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace cuheap
