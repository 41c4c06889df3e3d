#include "tools/simcuda/driver/graph_memory.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "entry_points.h"
#include "tools/simcuda/driver/address_space.h"
#include "tools/simcuda/driver/context.h"
#include "tools/simcuda/driver/pool.h"
#include "tools/simcuda/driver/queue.h"
#include "tools/simcuda/driver/state.h"

namespace simcuda {
namespace {

GraphMemoryUse& UseOf(const Device& device) { return State::Get().graphs.memory.use[device.ordinal]; }

void SetOpen(const GraphRange& range, bool open) {
  Block* block = State::Get().memory.Find(range.address);
  if (block != nullptr && block->kind == Kind::kGraph) block->open = open;
}

}  // namespace

GraphRange::~GraphRange() {
  State& state = State::Get();
  UnbackGraphRange(*this);
  state.memory.Forget(address);
  state.memory.DeviceArea(*device).Release(address, reserved);
  state.graphs.memory.by_address.erase(address);
}

CUresult MakeGraphAllocation(Device& device, size_t bytes, uint64_t graph_id, const std::shared_ptr<GraphRange>& reuse,
                             std::shared_ptr<GraphAllocation>* allocation) {
  State& state = State::Get();
  if (bytes > device.total_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  auto made = std::make_shared<GraphAllocation>();
  made->bytes = bytes;
  made->graph_id = graph_id;
  made->range = reuse;
  if (!reuse) {
    const size_t reserved = RoundUp(bytes, kPageBytes);
    const uint64_t address = state.memory.DeviceArea(device).Take(reserved);
    if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    made->range = std::make_shared<GraphRange>(&device, address, reserved);
  }
  state.memory.AddGraphBlock(device, made->range->address, bytes, made->range->reserved);
  state.graphs.memory.by_address[made->range->address] = made;
  *allocation = std::move(made);
  return CUDA_SUCCESS;
}

std::shared_ptr<GraphAllocation> FindGraphAllocation(uint64_t address) {
  const auto& known = State::Get().graphs.memory.by_address;
  const auto found = known.find(address);
  return found == known.end() ? nullptr : found->second.lock();
}

CUresult BackGraphRange(GraphRange& range) {
  if (range.backed) return CUDA_SUCCESS;
  GraphMemoryUse& use = UseOf(*range.device);
  const uint64_t from_cache = std::min<uint64_t>(use.cached, range.reserved);
  CUresult result = range.device->Charge(range.reserved - from_cache);
  if (result != CUDA_SUCCESS) {
    TrimPoolsUnderPressure(*range.device);
    result = range.device->Charge(range.reserved - from_cache);
  }
  if (result != CUDA_SUCCESS) return result;
  range.backed = true;
  use.cached -= from_cache;
  use.used += range.reserved;
  use.used_high = std::max(use.used_high, use.used);
  use.reserved_high = std::max(use.reserved_high, use.used + use.cached);
  return CUDA_SUCCESS;
}

void UnbackGraphRange(GraphRange& range) {
  if (!range.backed) return;
  CloseGraphRange(range);
  range.backed = false;
  GraphMemoryUse& use = UseOf(*range.device);
  use.used -= range.reserved;
  use.cached += range.reserved;
}

void OpenGraphRange(const GraphRange& range) {
  if (OpenPages(range.address, range.reserved)) SetOpen(range, true);
}

void CloseGraphRange(const GraphRange& range) {
  ClosePages(range.address, range.reserved);
  SetOpen(range, false);
}

CUresult FreeGraphAllocation(uint64_t address, const std::shared_ptr<Stream>& stream) {
  State& state = State::Get();
  const auto found = state.graphs.memory.outstanding.find(address);
  if (found == state.graphs.memory.outstanding.end()) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<GraphAllocation> allocation = found->second;
  state.graphs.memory.outstanding.erase(found);
  allocation->outstanding = false;
  const auto close = [allocation] {
    CloseGraphRange(*allocation->range);
    return Outcome::kDone;
  };
  if (!stream) return close(), CUDA_SUCCESS;
  std::shared_ptr<Work> work = NewWork("free", close);
  work->cost_ns = 0;
  state.engine.Enqueue(stream, work);
  return CUDA_SUCCESS;
}

// "Blocks which are not in use by a graph that is either currently executing or scheduled to execute are freed back to
// the operating system."
CUresult impl::cuDeviceGraphMemTrim(CUdevice device) {
  Device* found = nullptr;
  if (const CUresult result = FindDevice(device, &found)) return result;
  State& state = State::Get();
  for (const auto& [address, weak] : state.graphs.memory.by_address) {
    const std::shared_ptr<GraphAllocation> allocation = weak.lock();
    if (!allocation || allocation->range->device != found) continue;
    const Block* block = state.memory.Find(address);
    const bool open = block != nullptr && block->kind == Kind::kGraph && block->open;
    if (!open && !allocation->outstanding && allocation->range->in_flight == 0) UnbackGraphRange(*allocation->range);
  }
  GraphMemoryUse& use = UseOf(*found);
  found->Refund(use.cached);
  use.cached = 0;
  return CUDA_SUCCESS;
}

CUresult impl::cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void* value) {
  Device* found = nullptr;
  if (const CUresult result = FindDevice(device, &found)) return result;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const GraphMemoryUse& use = UseOf(*found);
  uint64_t bytes = 0;
  switch (attr) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
      bytes = use.used;
      break;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
      bytes = use.used_high;
      break;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
      bytes = use.used + use.cached;
      break;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
      bytes = use.reserved_high;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  std::memcpy(value, &bytes, sizeof bytes);
  return CUDA_SUCCESS;
}

// "High watermark can only be reset to zero."
CUresult impl::cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void* value) {
  Device* found = nullptr;
  if (const CUresult result = FindDevice(device, &found)) return result;
  uint64_t bytes = 1;
  if (value != nullptr) std::memcpy(&bytes, value, sizeof bytes);
  if (bytes != 0) return CUDA_ERROR_INVALID_VALUE;
  GraphMemoryUse& use = UseOf(*found);
  if (attr == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH) return use.used_high = use.used, CUDA_SUCCESS;
  if (attr == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) return use.reserved_high = use.used + use.cached, CUDA_SUCCESS;
  return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace simcuda
