// Unified Addressing (Driver API reference 6.16): attributes of pointers.
#include <cstring>

#include "entry_points.h"
#include "tools/simcuda/driver/context.h"
#include "tools/simcuda/driver/pool.h"
#include "tools/simcuda/driver/state.h"

namespace simcuda {
namespace {

template <typename T>
CUresult Store(void* data, T value) {
  std::memcpy(data, &value, sizeof value);
  return CUDA_SUCCESS;
}

bool HostKind(const Block& block) { return block.kind == Kind::kHost || block.kind == Kind::kRegistered; }

unsigned long long AllowedHandleTypes(const Block& block) {
  if (block.kind == Kind::kPool && block.pool->file && !block.pool->imported) {
    return CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  }
  if (block.kind != Kind::kVirtual) return 0;
  const auto& mappings = State::Get().virtual_memory.mappings;
  const auto mapping = mappings.find(block.base);
  return mapping == mappings.end() ? 0 : mapping->second.physical->props.requestedHandleTypes;
}

CUresult AddressAttribute(const Block& block, CUpointer_attribute attribute, uint64_t ptr, void* data) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return Store<CUdeviceptr>(data, ptr);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!HostKind(block) && block.kind != Kind::kManaged) return CUDA_ERROR_INVALID_VALUE;
      return Store<void*>(data, reinterpret_cast<void*>(ptr));
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return Store<CUdeviceptr>(data, block.base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return Store<size_t>(data, block.size);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return Store<int>(data, 1);
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      return Store<size_t>(data, block.reserved);
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      return Store<CUdeviceptr>(data, block.base);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult Attribute(const Block& block, CUpointer_attribute attribute, uint64_t ptr, void* data) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return Store<CUcontext>(data, block.context == nullptr ? nullptr : block.context->handle);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return Store<unsigned>(data, HostKind(block) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return Store<int>(data, block.sync_memops ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return Store<unsigned long long>(data, block.buffer_id);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return Store<int>(data, block.kind == Kind::kManaged ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return Store<int>(data, block.device->ordinal);
    // What cuIpcGetMemHandle takes.
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return Store<int>(data, block.kind == Kind::kDevice ? 1 : 0);
    // Neither RDMA nor decompression is simulated.
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      return Store<int>(data, 0);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return Store<unsigned long long>(data, AllowedHandleTypes(block));
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return Store<int>(data, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return Store<CUmemoryPool>(data, block.pool ? block.pool->handle : nullptr);
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return Store<unsigned long long>(data, block.buffer_id);
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return AddressAttribute(block, attribute, ptr, data);
  }
}

// What cuPointerGetAttributes gives for an address that CUDA does not know.
void StoreUnknown(CUpointer_attribute attribute, void* data) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      Store<int>(data, 0);
      return;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      Store<int>(data, CU_DEVICE_INVALID);
      return;
    default:
      Store<uint64_t>(data, 0);
  }
}

}  // namespace

CUresult impl::cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr ptr) {
  if (data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Block* block = State::Get().memory.Find(ptr);
  return block == nullptr ? CUDA_ERROR_INVALID_VALUE : Attribute(*block, attribute, ptr, data);
}

// "Unlike cuPointerGetAttribute, this function will not return an error when the ptr encountered is not a valid CUDA
// pointer": such attributes are 0.
CUresult impl::cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute* attributes, void** data,
                                      CUdeviceptr ptr) {
  if (numAttributes == 0 || attributes == nullptr || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Block* block = State::Get().memory.Find(ptr);
  for (unsigned i = 0; i < numAttributes; ++i) {
    if (data[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (block == nullptr || Attribute(*block, attributes[i], ptr, data[i]) != CUDA_SUCCESS)
      StoreUnknown(attributes[i], data[i]);
  }
  return CUDA_SUCCESS;
}

CUresult impl::cuPointerSetAttribute(const void* value, CUpointer_attribute attribute, CUdeviceptr ptr) {
  Block* block = State::Get().memory.Find(ptr);
  if (value == nullptr || block == nullptr || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
    return CUDA_ERROR_INVALID_VALUE;
  int on = 0;
  std::memcpy(&on, value, sizeof on);
  block->sync_memops = on != 0;
  return CUDA_SUCCESS;
}

}  // namespace simcuda
