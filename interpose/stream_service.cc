#include "interpose/stream_service.h"

#include <cstring>
#include <vector>

#include "interpose/driver_memory.h"

namespace cuheap {
namespace {

StreamPoolOptions PoolOptions(const options::Options& options) {
  StreamPoolOptions pool;
  pool.stream_rule = !options.test_no_stream_rule;
  pool.await_releases = options.test_without != options::Rule::kReleases;
  return pool;
}

// Nothing about it that only the driver can give: sharing, other places than a device, a special use.
bool Plain(const CUmemPoolProps& properties) {
  return properties.allocType == CU_MEM_ALLOCATION_TYPE_PINNED && properties.handleTypes == CU_MEM_HANDLE_TYPE_NONE &&
         properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE && properties.usage == 0;
}

// CUDA Driver API: handles 0 and 1 are the legacy default stream, 2 a thread's own one.
StreamKind KindOf(CUstream stream) {
  if (stream == CU_STREAM_PER_THREAD) return StreamKind::kPerThread;
  return stream == nullptr || stream == CU_STREAM_LEGACY ? StreamKind::kLegacy : StreamKind::kOrdinary;
}

}  // namespace

StreamService::StreamService(const DriverFunctions& driver, const CaptureWatch& captures, SyncHelper& helper,
                             StreamPoolObserver* observer, const options::Options& options)
    : driver_(driver),
      memory_(driver_, captures, helper, LongestWait(options)),
      pool_(memory_, observer, PoolOptions(options)) {}

// ---- streams ----

StreamService::Stream StreamService::Identify(HookId id, CUstream stream, std::uint64_t context, int device) {
  Stream found;
  if (stream == nullptr && IsPerThread(id)) stream = CU_STREAM_PER_THREAD;
  unsigned long long number = 0;
  found.result = driver_.cuStreamGetId(stream, &number);
  if (found.result != CUDA_SUCCESS) return found;
  found.ref = {number, reinterpret_cast<std::uint64_t>(stream), context, KindOf(stream)};
  found.device = device;
  if (found.ref.kind != StreamKind::kOrdinary) return found;
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = streams_.find(number); known != streams_.end()) {
      found.ref.context = known->second.context;
      found.ref.behind_legacy = known->second.behind_legacy;
      found.device = known->second.device;
      return found;
    }
  }
  CUcontext owner = nullptr;
  found.result = driver_.cuStreamGetCtx(stream, &owner);
  if (found.result != CUDA_SUCCESS) return found;
  found.ref.context = reinterpret_cast<std::uint64_t>(owner);
  if (found.ref.context != context) found.device = DeviceOf(found.ref.context);
  unsigned int flags = 0;
  if (driver_.cuStreamGetFlags(stream, &flags) == CUDA_SUCCESS) {
    found.ref.behind_legacy = (flags & CU_STREAM_NON_BLOCKING) == 0;
  }
  const std::lock_guard lock(mutex_);
  streams_[number] = {found.ref.context, found.device, found.ref.behind_legacy};
  return found;
}

int StreamService::DeviceOf(std::uint64_t context) const {
  const ContextScope scope(driver_, context);
  CUdevice device = -1;
  if (scope.result() != CUDA_SUCCESS || driver_.cuCtxGetDevice(&device) != CUDA_SUCCESS) return -1;
  return device;
}

void StreamService::StreamGone(StreamId id) {
  const std::lock_guard lock(mutex_);
  streams_.erase(id);
}

void StreamService::ContextGone(std::uint64_t context) {
  const std::lock_guard lock(mutex_);
  std::erase_if(streams_, [context](const auto& entry) { return entry.second.context == context; });
}

// ---- pools ----

StreamPoolId StreamService::NewPool(int device, std::size_t max_bytes, bool expects_much) {
  return memory_.Supports(device) ? pool_.AddPool(device, max_bytes, expects_much) : 0;
}

StreamPoolId StreamService::CurrentPool(int device) {
  if (device < 0) return 0;
  PoolBook::Handle current = book_.Current(device);
  if (current == 0) {
    CUmemoryPool handle = nullptr;
    if (driver_.cuDeviceGetMemPool(&handle, device) != CUDA_SUCCESS || handle == nullptr) return 0;
    PoolSeen(handle, device);
    current = reinterpret_cast<PoolBook::Handle>(handle);
    book_.SetCurrent(device, current);
  }
  return book_.Find(current);
}

void StreamService::PoolCreated(CUmemoryPool handle, const CUmemPoolProps& properties) {
  const std::size_t limit = (properties.maxSize + kStreamPage - 1) / kStreamPage * kStreamPage;  // 0: none
  const StreamPoolId id = Plain(properties) ? NewPool(properties.location.id, limit, /*expects_much=*/false) : 0;
  book_.Add(reinterpret_cast<std::uint64_t>(handle), id);
}

std::optional<StreamPoolId> StreamService::PoolGoing(CUmemoryPool handle) {
  return book_.Remove(reinterpret_cast<std::uint64_t>(handle));
}

void StreamService::PoolWent(CUmemoryPool handle, StreamPoolId id, bool gone) {
  if (gone && id != 0) {
    pool_.DestroyPool(id);
  } else if (!gone) {
    book_.Add(reinterpret_cast<std::uint64_t>(handle), id);
  }
}

// A handle that nobody made is the device's default pool; anything else is left to the driver.
void StreamService::PoolSeen(CUmemoryPool handle, int device) {
  const auto number = reinterpret_cast<std::uint64_t>(handle);
  if (handle == nullptr || book_.Knows(number)) return;
  CUmemoryPool by_default = nullptr;
  if (driver_.cuDeviceGetDefaultMemPool(&by_default, device) != CUDA_SUCCESS || by_default != handle) return;
  const StreamPoolId id = NewPool(device, 0, /*expects_much=*/true);
  if (!book_.Add(number, id) && id != 0) pool_.DestroyPool(id);  // another thread was faster
}

void StreamService::PoolMadeCurrent(CUmemoryPool handle, int device) {
  PoolSeen(handle, device);
  book_.SetCurrent(device, reinterpret_cast<std::uint64_t>(handle));
}

// The value has been checked by the driver, which has accepted it.
void StreamService::AttributeSet(CUmemoryPool handle, CUmemPool_attribute attribute, const void* value) {
  const StreamPoolId id = PoolOf(handle);
  if (id == 0) return;
  std::uint64_t bytes = 0;
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      std::memcpy(&bytes, value, sizeof(bytes));
      return pool_.SetReleaseThreshold(id, bytes);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      return pool_.ResetReservedHigh(id);
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      return pool_.ResetUsedHigh(id);
    default:
      return;  // how the driver would reuse: ours only ever reuses what is proven
  }
}

void StreamService::CorrectAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) const {
  const StreamPoolId id = PoolOf(handle);
  if (id == 0 || value == nullptr) return;
  const StreamPoolStats stats = pool_.Stats(id);
  std::uint64_t ours = 0;
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      ours = stats.reserved;
      break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      ours = stats.reserved_high;
      break;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      ours = stats.used;
      break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      ours = stats.used_high;
      break;
    default:
      return;
  }
  std::uint64_t sum = 0;
  std::memcpy(&sum, value, sizeof(sum));
  sum += ours;
  std::memcpy(value, &sum, sizeof(sum));
}

CUresult StreamService::AccessSet(CUmemoryPool handle, const CUmemAccessDesc* map, std::size_t count) {
  const StreamPoolId id = PoolOf(handle);
  if (id == 0) return CUDA_SUCCESS;
  std::vector<AccessGrant> grants;
  for (std::size_t i = 0; i < count; ++i) {
    if (map[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE)
      grants.push_back({map[i].location.id, static_cast<int>(map[i].flags)});
  }
  return static_cast<CUresult>(pool_.SetAccess(id, grants.data(), grants.size()).code);
}

}  // namespace cuheap
