// Multicast Object Management (Driver API reference 6.15). Where a GPU's driver would block until all devices of the
// team were added, this one answers CUDA_ERROR_NOT_READY: nobody else adds devices to an object that is not shared.
#include "entry_points.h"
#include "tools/simcuda/driver/context.h"
#include "tools/simcuda/driver/contexts.h"
#include "tools/simcuda/driver/state.h"
#include "tools/simcuda/driver/virtual_memory.h"

namespace simcuda {
namespace {

constexpr size_t kGranularity = kPageBytes;  // minimum and recommended

bool Whole(size_t bytes) { return bytes % kGranularity == 0; }

bool Supported(const Device& device) {
  int value = 0;
  DeviceAttribute(*device.model, device.ordinal, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, &value);
  return value != 0;
}

std::shared_ptr<PhysicalBlock> FindObject(CUmemGenericAllocationHandle handle) {
  const auto& blocks = State::Get().virtual_memory.blocks;
  const auto found = blocks.find(handle);
  const bool object = found != blocks.end() && found->second->references != 0 && found->second->multicast != nullptr;
  return object ? found->second : nullptr;
}

CUresult CheckObject(const CUmulticastObjectProp* prop) {
  if (prop == nullptr || prop->flags != 0 || prop->numDevices == 0) return CUDA_ERROR_INVALID_VALUE;
  // Objects are not shared between processes here.
  if (prop->handleTypes != 0) return CUDA_ERROR_NOT_SUPPORTED;
  const auto& devices = State::Get().devices;
  unsigned able = 0;
  for (const auto& device : devices) able += Supported(*device) ? 1 : 0;
  if (able == 0) return CUDA_ERROR_NOT_SUPPORTED;
  return prop->numDevices <= able ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// Errors: INVALID_VALUE (no such object, sizes, a range that is bound already), NOT_READY (devices are missing),
// INVALID_DEVICE (one that is not of the team).
CUresult Bind(CUmemGenericAllocationHandle handle, int device, size_t offset, size_t bytes,
              const std::shared_ptr<PhysicalBlock>& physical) {
  const std::shared_ptr<PhysicalBlock> object = FindObject(handle);
  if (!object) return CUDA_ERROR_INVALID_VALUE;
  Multicast& multicast = *object->multicast;
  if (multicast.devices.size() < multicast.team) return CUDA_ERROR_NOT_READY;
  if (!multicast.devices.contains(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (bytes == 0 || !Whole(bytes) || !Whole(offset)) return CUDA_ERROR_INVALID_VALUE;
  if (offset > object->bytes || bytes > object->bytes - offset) return CUDA_ERROR_INVALID_VALUE;
  auto& bindings = multicast.bound[device];
  const auto next = bindings.lower_bound(offset);
  if (next != bindings.end() && next->first < offset + bytes) return CUDA_ERROR_INVALID_VALUE;
  if (next != bindings.begin() && std::prev(next)->first + std::prev(next)->second.bytes > offset) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  bindings[offset] = {physical, bytes};
  if (physical) ++physical->mappings;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult impl::cuMulticastGetGranularity(size_t* granularity, const CUmulticastObjectProp* prop,
                                         CUmulticastGranularity_flags option) {
  if (granularity == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (option != CU_MULTICAST_GRANULARITY_MINIMUM && option != CU_MULTICAST_GRANULARITY_RECOMMENDED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (const CUresult result = CheckObject(prop)) return result;
  *granularity = kGranularity;
  return CUDA_SUCCESS;
}

CUresult impl::cuMulticastCreate(CUmemGenericAllocationHandle* mcHandle, const CUmulticastObjectProp* prop) {
  if (mcHandle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = CheckObject(prop)) return result;
  if (prop->size == 0 || !Whole(prop->size)) return CUDA_ERROR_INVALID_VALUE;
  auto block = std::make_shared<PhysicalBlock>();
  block->device = State::Get().devices.front().get();
  block->bytes = prop->size;
  block->multicast = std::make_shared<Multicast>();
  block->multicast->team = prop->numDevices;
  *mcHandle = AddBlock(block);
  return CUDA_SUCCESS;
}

CUresult impl::cuMulticastAddDevice(CUmemGenericAllocationHandle mcHandle, CUdevice dev) {
  Device* device = nullptr;
  if (const CUresult result = FindDevice(dev, &device)) return result;
  const std::shared_ptr<PhysicalBlock> object = FindObject(mcHandle);
  if (!object) return CUDA_ERROR_INVALID_VALUE;
  if (!Supported(*device)) return CUDA_ERROR_NOT_SUPPORTED;
  Multicast& multicast = *object->multicast;
  if (multicast.devices.contains(dev) || multicast.devices.size() == multicast.team) return CUDA_ERROR_INVALID_VALUE;
  if (multicast.devices.empty()) object->device = device;
  multicast.devices.insert(dev);
  return CUDA_SUCCESS;
}

CUresult impl::cuMulticastBindMem(CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
                                  CUmemGenericAllocationHandle memHandle, size_t memOffset, size_t size,
                                  unsigned long long flags) {
  const auto& blocks = State::Get().virtual_memory.blocks;
  const auto found = blocks.find(memHandle);
  if (flags != 0 || found == blocks.end() || found->second->references == 0) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<PhysicalBlock> memory = found->second;
  if (memory->multicast != nullptr || !Whole(memOffset)) return CUDA_ERROR_INVALID_VALUE;
  if (memOffset > memory->bytes || size > memory->bytes - memOffset) return CUDA_ERROR_INVALID_VALUE;
  return Bind(mcHandle, memory->device->ordinal, mcOffset, size, memory);
}

// "The memory must have been allocated via cuMemCreate or cudaMallocAsync."
CUresult impl::cuMulticastBindAddr(CUmemGenericAllocationHandle mcHandle, size_t mcOffset, CUdeviceptr memptr,
                                   size_t size, unsigned long long flags) {
  State& state = State::Get();
  const Block* block = state.memory.Find(memptr);
  if (flags != 0 || !Whole(memptr) || block == nullptr || block->freeing) return CUDA_ERROR_INVALID_VALUE;
  if (size > block->size - (memptr - block->base)) return CUDA_ERROR_INVALID_VALUE;
  if (block->kind == Kind::kPool) return Bind(mcHandle, block->device->ordinal, mcOffset, size, nullptr);
  const auto mapping = state.virtual_memory.mappings.find(block->base);
  if (block->kind != Kind::kVirtual || mapping == state.virtual_memory.mappings.end()) return CUDA_ERROR_INVALID_VALUE;
  return Bind(mcHandle, block->device->ordinal, mcOffset, size, mapping->second.physical);
}

// "The mcOffset and the size must match the corresponding values specified during the bind call."
CUresult impl::cuMulticastUnbind(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset, size_t size) {
  Device* device = nullptr;
  if (const CUresult result = FindDevice(dev, &device)) return result;
  const std::shared_ptr<PhysicalBlock> object = FindObject(mcHandle);
  if (!object) return CUDA_ERROR_INVALID_VALUE;
  auto& bindings = object->multicast->bound[dev];
  const auto found = bindings.find(mcOffset);
  if (found == bindings.end() || found->second.bytes != size) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<PhysicalBlock> memory = found->second.physical;
  bindings.erase(found);
  if (memory) {
    --memory->mappings;
    EndIfUnreferenced(memory);
  }
  return CUDA_SUCCESS;
}

}  // namespace simcuda
