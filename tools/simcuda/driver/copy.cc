#include "tools/simcuda/driver/copy.h"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tools/simcuda/driver/graph.h"
#include "tools/simcuda/driver/pool.h"
#include "tools/simcuda/driver/queue.h"
#include "tools/simcuda/driver/state.h"

namespace simcuda {
namespace {

enum class Place { kPageable, kPinned, kDevice };

// Sources up to this are copied aside during an asynchronous copy from pageable memory; for larger ones the call waits,
// which the documentation allows and which bounds our memory.
constexpr size_t kLargestStaged = size_t{16} << 20;

size_t Extent(const CopySide& side, const Copy& copy) {
  size_t extent = 0;
  return ExtentOf(copy.width, copy.height, side.pitch, copy.depth, side.slice, &extent) ? extent : SIZE_MAX;
}

CUresult FindPlace(const CopySide& side, const Copy& copy, Place* place, bool* sync_memops) {
  if (side.expected == Expected::kArray) {
    *place = Place::kDevice;
    return CUDA_SUCCESS;
  }
  Memory& memory = State::Get().memory;
  const Block* block = memory.Find(side.address);
  if (block == nullptr || block->freeing) {
    *place = Place::kPageable;
    // Something in our own address ranges that is no block (any more) is no host memory either.
    if (side.address == 0 || memory.InDeviceRange(side.address)) return CUDA_ERROR_INVALID_VALUE;
    return side.expected == Expected::kDevice ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  }
  if (!memory.Covers(side.address, Extent(side, copy))) return CUDA_ERROR_INVALID_VALUE;
  *sync_memops |= block->sync_memops;
  *place = block->kind == Kind::kHost || block->kind == Kind::kRegistered ? Place::kPinned : Place::kDevice;
  return CUDA_SUCCESS;
}

void CopyRows(const Copy& copy) {
  for (size_t z = 0; z < copy.depth; ++z) {
    for (size_t y = 0; y < copy.height; ++y) {
      CopyBytes(copy.to.address + z * copy.to.slice + y * copy.to.pitch,
                copy.from.address + z * copy.from.slice + y * copy.from.pitch, copy.width);
    }
  }
}

// The source's bytes, gathered without gaps.
std::shared_ptr<std::vector<char>> Gather(const Copy& copy) {
  auto bytes = std::make_shared<std::vector<char>>(copy.width * copy.height * copy.depth);
  Copy gather = copy;
  gather.to.address = reinterpret_cast<uint64_t>(bytes->data());
  gather.to.pitch = copy.width;
  gather.to.slice = copy.width * copy.height;
  CopyRows(gather);
  return bytes;
}

// FNV-1a over 64-bit words, the last one filled up with zeros: equal bytes in runs that are compared, nothing stronger.
uint64_t HashRow(uint64_t hash, const char* bytes, size_t count) {
  constexpr uint64_t kPrime = 0x100000001b3;
  for (; count >= sizeof(uint64_t); bytes += sizeof(uint64_t), count -= sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, bytes, sizeof word);
    hash = (hash ^ word) * kPrime;
    hash ^= hash >> 32;  // a multiplication alone carries nothing from the upper half down
  }
  uint64_t word = 0;
  std::memcpy(&word, bytes, count);
  return (hash ^ word) * kPrime;
}

// SIMCUDA_LOG_DATA: what crossed between host and device, from the side in host memory.
void LogData(const Copy& copy, bool to_host) {
  const CopySide& host = to_host ? copy.to : copy.from;
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t z = 0; z < copy.depth; ++z) {
    for (size_t y = 0; y < copy.height; ++y) {
      hash = HashRow(hash, reinterpret_cast<const char*>(host.address + z * host.slice + y * host.pitch), copy.width);
    }
  }
  State::Get().log.Note(std::string("data to=") + (to_host ? "host" : "device") +
                        " bytes=" + std::to_string(copy.width * copy.height * copy.depth) + " hash=" + HexText(hash));
}

}  // namespace

bool KernelMayUse(const Context& context, uint64_t address, size_t bytes) {
  State& state = State::Get();
  const auto allowed = [&](const std::map<int, CUmemAccess_flags>& access) {
    const auto known = access.find(context.device->ordinal);
    return known != access.end() && known->second != CU_MEM_ACCESS_FLAGS_PROT_NONE;
  };
  for (const uint64_t end = address + bytes; address < end;) {
    const Block* block = state.memory.Find(address);
    if (block == nullptr) return true;  // freed memory of a pool that is still mapped
    address = block->base + block->size;
    if (block->kind == Kind::kVirtual) {
      const auto mapping = state.virtual_memory.mappings.find(block->base);
      if (mapping != state.virtual_memory.mappings.end() && !allowed(mapping->second.access)) return false;
    } else if (block->device != context.device) {
      const bool device_memory = block->kind == Kind::kDevice || block->kind == Kind::kVariable;
      if (block->kind == Kind::kPool && !allowed(block->pool->access)) return false;
      if (device_memory && !context.peers.contains(block->context->handle)) return false;
      // Opening the handle enabled it for that context.
      if (block->kind == Kind::kImported && block->context != &context) return false;
    }
  }
  return true;
}

bool CheckAccess(Context& context, uint64_t address, size_t bytes) {
  if (State::Get().memory.Accessible(address, bytes) || InPoolPages(address, bytes)) return true;
  context.sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
  return false;
}

namespace {

// Where the two sides of a copy lie.
struct Places {
  Place to = Place::kPageable, from = Place::kPageable;
  bool sync_memops = false;  // CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: synchronous copies of the block are complete on return
};

CUresult FindPlaces(const Copy& copy, Places* places) {
  if (const CUresult result = FindPlace(copy.to, copy, &places->to, &places->sync_memops)) return result;
  return FindPlace(copy.from, copy, &places->from, &places->sync_memops);
}

// The copy as a graph's node would tell it.
CUDA_MEMCPY3D Describe(const Copy& copy) {
  const auto type = [](Expected expected) {
    return expected == Expected::kHost     ? CU_MEMORYTYPE_HOST
           : expected == Expected::kDevice ? CU_MEMORYTYPE_DEVICE
           : expected == Expected::kArray  ? CU_MEMORYTYPE_ARRAY
                                           : CU_MEMORYTYPE_UNIFIED;
  };
  const auto height = [](const CopySide& side) { return side.pitch == 0 ? 0 : side.slice / side.pitch; };
  CUDA_MEMCPY3D params{};
  params.srcMemoryType = type(copy.from.expected);
  params.dstMemoryType = type(copy.to.expected);
  if (params.srcMemoryType == CU_MEMORYTYPE_ARRAY) {
    params.srcArray = copy.from.array;
    params.srcXInBytes = copy.from.x;
    params.srcY = copy.from.y;
    params.srcZ = copy.from.z;
  } else if (params.srcMemoryType == CU_MEMORYTYPE_HOST) {
    params.srcHost = reinterpret_cast<const void*>(copy.from.address);
  } else {
    params.srcDevice = copy.from.address;
  }
  if (params.dstMemoryType == CU_MEMORYTYPE_ARRAY) {
    params.dstArray = copy.to.array;
    params.dstXInBytes = copy.to.x;
    params.dstY = copy.to.y;
    params.dstZ = copy.to.z;
  } else if (params.dstMemoryType == CU_MEMORYTYPE_HOST) {
    params.dstHost = reinterpret_cast<void*>(copy.to.address);
  } else {
    params.dstDevice = copy.to.address;
  }
  params.srcPitch = copy.from.pitch;
  params.dstPitch = copy.to.pitch;
  params.srcHeight = height(copy.from);
  params.dstHeight = height(copy.to);
  params.WidthInBytes = copy.width;
  params.Height = copy.height;
  params.Depth = copy.depth;
  return params;
}

std::shared_ptr<Work> MakeCopy(Context* context, const Copy& copy, const Places& places,
                               const std::shared_ptr<std::vector<char>>& staging) {
  auto work = NewWork("copy", [copy, places, staging, context] {
    if (places.to != Place::kPageable && !CheckAccess(*context, copy.to.address, Extent(copy.to, copy)))
      return Outcome::kDone;
    if (places.from != Place::kPageable && !CheckAccess(*context, copy.from.address, Extent(copy.from, copy)))
      return Outcome::kDone;
    CopyRows(copy);
    const bool to_host = places.to != Place::kDevice, from_host = places.from != Place::kDevice;
    if (to_host != from_host && State::Get().config.log_data) LogData(copy, to_host);
    return Outcome::kDone;
  });
  // 20 GB/s over the bus, 2 TB/s within a device: the order of magnitude is all that the simulated clock promises.
  const size_t bytes = copy.width * copy.height * copy.depth;
  const bool inside = places.to == Place::kDevice && places.from == Place::kDevice;
  work->cost_ns = 1500 + (inside ? bytes / 2000 : bytes / 20);
  return work;
}

}  // namespace

CUresult MakeNodeCopy(Context& context, const Copy& copy, std::shared_ptr<Work>* work) {
  Places places;
  if (const CUresult result = FindPlaces(copy, &places)) return result;
  *work = MakeCopy(&context, copy, places, nullptr);
  (*work)->details = NewDetails(CU_GRAPH_NODE_TYPE_MEMCPY, Describe(copy));
  return CUDA_SUCCESS;
}

CUresult QueueCopy(const std::shared_ptr<Stream>& stream, const Copy& original, Timing timing) {
  Copy copy = original;
  if (copy.width == 0 || copy.height == 0 || copy.depth == 0) return CUDA_SUCCESS;
  if (stream->capture) {
    // A node copies when it runs, whatever kind of memory it is: nothing is read or waited for during the call.
    std::shared_ptr<Work> node;
    const CUresult result = MakeNodeCopy(*stream->context, copy, &node);
    if (result == CUDA_SUCCESS) State::Get().engine.Enqueue(stream, std::move(node));
    return result;
  }
  Places places;
  if (const CUresult result = FindPlaces(copy, &places)) return result;
  const Place to = places.to, from = places.from;
  Engine& engine = State::Get().engine;
  Context* context = stream->context;

  bool complete = false;  // on return
  bool staged = false;
  if (to == Place::kDevice && from == Place::kPageable) {
    // The synchronous form first waits for the stream, so its source is read in stream order.
    if (timing == Timing::kSynchronous) engine.WaitStream(*stream);
    // The lock was free meanwhile: another thread may have ended the context.
    if (!context->active) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    staged = copy.width * copy.height * copy.depth <= kLargestStaged;
    complete = !staged;
  } else if (to != Place::kDevice && from != Place::kDevice) {
    complete = true;
  } else if (to != Place::kDevice) {
    complete = timing == Timing::kSynchronous || to == Place::kPageable;
  } else if (from != Place::kDevice) {
    complete = timing == Timing::kSynchronous;
    staged = timing == Timing::kAsynchronousCapturing;
  }
  complete = complete || (places.sync_memops && timing == Timing::kSynchronous);
  std::shared_ptr<std::vector<char>> staging;
  if (staged) {
    staging = Gather(copy);
    copy.from.address = reinterpret_cast<uint64_t>(staging->data());
    copy.from.pitch = copy.width;
    copy.from.slice = copy.width * copy.height;
    places.from = Place::kPageable;
  }
  const std::shared_ptr<Work> work = MakeCopy(context, copy, places, staging);
  engine.Enqueue(stream, work);
  if (complete) engine.Wait(work);
  return complete ? context->sticky : CUDA_SUCCESS;
}

}  // namespace simcuda
