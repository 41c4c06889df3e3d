#include "tools/simcuda/driver/virtual_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "entry_points.h"
#include "tools/simcuda/driver/context.h"
#include "tools/simcuda/driver/contexts.h"
#include "tools/simcuda/driver/pool.h"
#include "tools/simcuda/driver/shared_file.h"
#include "tools/simcuda/driver/state.h"

namespace simcuda {

bool PhysicalMemory::Take(size_t bytes, uint64_t* offset) {
  constexpr size_t kFileBytes = size_t{1} << 46;  // sparse: only what is written takes memory
  if (descriptor_ < 0) {
    descriptor_ = static_cast<int>(syscall(SYS_memfd_create, "simcuda", MFD_CLOEXEC));
    if (descriptor_ < 0 || ftruncate(descriptor_, kFileBytes) != 0) return false;
    free_.emplace(0, kFileBytes);
  }
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    if (range->second < bytes) continue;
    *offset = range->first;
    const size_t rest = range->second - bytes;
    free_.erase(range);
    if (rest > 0) free_.emplace(*offset + bytes, rest);
    return true;
  }
  return false;
}

bool PhysicalMemory::Fill(uint64_t offset, size_t bytes, int byte) const {
  const long address = syscall(SYS_mmap, nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, offset);
  if (address == -1) return false;
  FillBytes(static_cast<uint64_t>(address), byte, bytes, /*shared=*/true);
  syscall(SYS_munmap, address, bytes);
  return true;
}

void PhysicalMemory::Release(uint64_t offset, size_t bytes) {
  fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
            static_cast<off_t>(bytes));
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && offset + bytes == next->first) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin() && std::prev(next)->first + std::prev(next)->second == offset) {
    std::prev(next)->second += bytes;
  } else {
    free_.emplace(offset, bytes);
  }
}

namespace {

VirtualMemory& Virtual() { return State::Get().virtual_memory; }

bool WholePages(uint64_t value) { return value % kPageBytes == 0; }

// Errors: INVALID_VALUE, INVALID_DEVICE; NOT_SUPPORTED for memory that is not a device's.
CUresult CheckProps(const CUmemAllocationProp* props, Device** device) {
  if (props == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (props->type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  if (props->location.type == CU_MEM_LOCATION_TYPE_INVALID) return CUDA_ERROR_INVALID_VALUE;
  if (props->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  const unsigned known = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  if ((static_cast<unsigned>(props->requestedHandleTypes) & ~known) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  return FindDevice(props->location.id, device);
}

// The mappings that tile [ptr, ptr + size) exactly; empty when they do not.
std::vector<std::map<uint64_t, Mapping>::iterator> MappingsIn(CUdeviceptr ptr, size_t size) {
  std::vector<std::map<uint64_t, Mapping>::iterator> found;
  auto& mappings = Virtual().mappings;
  uint64_t at = ptr;
  for (auto mapping = mappings.find(ptr); mapping != mappings.end() && mapping->first == at && at < ptr + size;
       ++mapping) {
    found.push_back(mapping);
    at += mapping->second.bytes;
  }
  if (at != ptr + size) found.clear();
  return found;
}

bool InReservation(CUdeviceptr ptr, size_t size) {
  const auto& reservations = Virtual().reservations;
  const auto next = reservations.upper_bound(ptr);
  if (next == reservations.begin()) return false;
  const auto& [address, bytes] = *std::prev(next);
  return ptr - address < bytes && size <= bytes - (ptr - address);
}

bool Overlaps(CUdeviceptr ptr, size_t size) {
  const auto& mappings = Virtual().mappings;
  const auto next = mappings.lower_bound(ptr);
  if (next != mappings.end() && next->first < ptr + size) return true;
  return next != mappings.begin() && std::prev(next)->first + std::prev(next)->second.bytes > ptr;
}

}  // namespace

CUmemGenericAllocationHandle AddBlock(const std::shared_ptr<PhysicalBlock>& block) {
  block->references = 1;
  block->handle = Virtual().next_handle;
  Virtual().next_handle += 64;
  Virtual().blocks[block->handle] = block;
  return block->handle;
}

void EndIfUnreferenced(const std::shared_ptr<PhysicalBlock>& block) {
  if (block->references != 0 || block->mappings != 0) return;
  if (block->multicast) {
    // What is bound to the object goes free with it.
    const std::shared_ptr<Multicast> multicast = std::move(block->multicast);
    Virtual().blocks.erase(block->handle);
    for (const auto& [device, bindings] : multicast->bound) {
      for (const auto& [offset, bound] : bindings) {
        if (bound.physical == nullptr) continue;
        --bound.physical->mappings;
        EndIfUnreferenced(bound.physical);
      }
    }
    return;
  }
  if (!block->file) Virtual().devices[block->device->ordinal].Release(block->offset, block->bytes);
  if (!block->imported) block->device->Refund(block->bytes);
  Virtual().blocks.erase(block->handle);
}

CUresult impl::cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* prop,
                                             CUmemAllocationGranularity_flags option) {
  Device* device = nullptr;
  if (granularity == nullptr || option < CU_MEM_ALLOC_GRANULARITY_MINIMUM ||
      option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (const CUresult result = CheckProps(prop, &device)) return result;
  *granularity = kPageBytes;
  return CUDA_SUCCESS;
}

CUresult impl::cuMemAddressReserve(CUdeviceptr* ptr, size_t size, size_t alignment, CUdeviceptr addr,
                                   unsigned long long flags) {
  if (ptr == nullptr || size == 0 || !WholePages(size) || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if ((alignment & (alignment - 1)) != 0) return CUDA_ERROR_INVALID_VALUE;
  Area& area = State::Get().memory.VirtualArea();
  uint64_t address = 0;
  // The address is a hint.
  if (addr != 0 && WholePages(addr) && area.TakeAt(addr, size)) address = addr;
  if (address == 0) address = area.Take(size, std::max(alignment, kPageBytes));
  if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  Virtual().reservations[address] = size;
  *ptr = address;
  return CUDA_SUCCESS;
}

CUresult impl::cuMemAddressFree(CUdeviceptr ptr, size_t size) {
  auto& reservations = Virtual().reservations;
  const auto found = reservations.find(ptr);
  if (found == reservations.end() || found->second != size || Overlaps(ptr, size)) return CUDA_ERROR_INVALID_VALUE;
  reservations.erase(found);
  State::Get().memory.VirtualArea().Release(ptr, size);
  return CUDA_SUCCESS;
}

CUresult impl::cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size, const CUmemAllocationProp* prop,
                           unsigned long long flags) {
  Device* device = nullptr;
  if (handle == nullptr || size == 0 || !WholePages(size) || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = CheckProps(prop, &device)) return result;
  if (device->Charge(size) != CUDA_SUCCESS) {
    TrimPoolsUnderPressure(*device);
    if (const CUresult result = device->Charge(size)) return result;
  }
  auto block = std::make_shared<PhysicalBlock>();
  const bool shareable = prop->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE;
  if (shareable) block->file = SharedFile::Create(SharedKind::kPhysical, device->physical, size);
  if (shareable ? !block->file : !Virtual().devices[device->ordinal].Take(size, &block->offset)) {
    device->Refund(size);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const int fill = State::Get().config.fill;
  if (fill > 0 && !Virtual().devices[device->ordinal].Fill(block->offset, size, fill)) {  // 0: it reads as zeros anyway
    Virtual().devices[device->ordinal].Release(block->offset, size);
    device->Refund(size);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  block->device = device;
  block->props = *prop;
  block->bytes = size;
  *handle = AddBlock(block);
  return CUDA_SUCCESS;
}

CUresult impl::cuMemRelease(CUmemGenericAllocationHandle handle) {
  const auto found = Virtual().blocks.find(handle);
  if (found == Virtual().blocks.end() || found->second->references == 0) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<PhysicalBlock> block = found->second;
  --block->references;
  EndIfUnreferenced(block);
  return CUDA_SUCCESS;
}

CUresult impl::cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* addr) {
  const auto& mappings = Virtual().mappings;
  const auto address = reinterpret_cast<uint64_t>(addr);
  const auto next = mappings.upper_bound(address);
  if (handle == nullptr || next == mappings.begin()) return CUDA_ERROR_INVALID_VALUE;
  const auto& [base, mapping] = *std::prev(next);
  if (address - base >= mapping.bytes) return CUDA_ERROR_INVALID_VALUE;
  ++mapping.physical->references;
  *handle = mapping.physical->handle;
  return CUDA_SUCCESS;
}

CUresult impl::cuMemExportToShareableHandle(void* shareableHandle, CUmemGenericAllocationHandle handle,
                                            CUmemAllocationHandleType handleType, unsigned long long flags) {
  const auto found = Virtual().blocks.find(handle);
  if (shareableHandle == nullptr || flags != 0 || found == Virtual().blocks.end() || found->second->references == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // What kinds of handle there may be was said to cuMemCreate.
  if (handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || !found->second->file) return CUDA_ERROR_INVALID_VALUE;
  const int descriptor = found->second->file->Duplicate();
  if (descriptor < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *static_cast<int*>(shareableHandle) = descriptor;
  return CUDA_SUCCESS;
}

// "There is no guarantee that the contents of handle will be the same CUDA memory handle for the same given OS
// shareable handle, or the same underlying allocation": here the same allocation keeps one handle and counts its
// references.
CUresult impl::cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* osHandle,
                                              CUmemAllocationHandleType shHandleType) {
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    return shHandleType == CU_MEM_HANDLE_TYPE_FABRIC ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
  }
  const auto file =
      SharedFile::FromDescriptor(static_cast<int>(reinterpret_cast<intptr_t>(osHandle)), SharedKind::kPhysical);
  if (!file || file->bytes() % kPageBytes != 0) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& [number, block] : Virtual().blocks) {
    if (!block->file || block->file->facts().key != file->facts().key) continue;
    ++block->references;
    *handle = number;
    return CUDA_SUCCESS;
  }
  auto block = std::make_shared<PhysicalBlock>();
  for (const auto& device : State::Get().devices) {
    if (device->physical == file->facts().device) block->device = device.get();
  }
  // "If the current process cannot support the memory described by this shareable handle."
  if (block->device == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  block->props.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  block->props.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  block->props.location = {CU_MEM_LOCATION_TYPE_DEVICE, {block->device->ordinal}};
  block->bytes = file->bytes();
  block->file = file;
  block->imported = true;
  *handle = AddBlock(block);
  return CUDA_SUCCESS;
}

CUresult impl::cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* prop, CUmemGenericAllocationHandle handle) {
  const auto found = Virtual().blocks.find(handle);
  if (prop == nullptr || found == Virtual().blocks.end()) return CUDA_ERROR_INVALID_VALUE;
  *prop = found->second->props;
  return CUDA_SUCCESS;
}

CUresult impl::cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                        unsigned long long flags) {
  const auto found = Virtual().blocks.find(handle);
  if (found == Virtual().blocks.end() || found->second->references == 0) return CUDA_ERROR_INVALID_VALUE;
  // "offset must be 0"; a handle is mapped whole.
  if (size == 0 || !WholePages(ptr) || offset != 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<PhysicalBlock>& block = found->second;
  if (size != block->bytes || !InReservation(ptr, size)) return CUDA_ERROR_INVALID_VALUE;
  if (Overlaps(ptr, size)) return CUDA_ERROR_ALREADY_MAPPED;
  if (block->multicast && block->multicast->devices.size() < block->multicast->team) return CUDA_ERROR_NOT_READY;
  // Inaccessible until cuMemSetAccess.
  const int descriptor =
      block->file ? block->file->descriptor() : Virtual().devices[block->device->ordinal].descriptor();
  if (!block->multicast) {
    const long address =
        syscall(SYS_mmap, ptr, size, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, descriptor, block->offset);
    if (static_cast<CUdeviceptr>(address) != ptr) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  ++block->mappings;
  Virtual().mappings[ptr] = {block, size, {}};
  State::Get().memory.AddVirtual(block->device, ptr, size)->freeing = true;  // no copy may touch it yet
  return CUDA_SUCCESS;
}

CUresult impl::cuMemUnmap(CUdeviceptr ptr, size_t size) {
  const auto found = MappingsIn(ptr, size);
  if (found.empty()) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& mapping : found) {
    const std::shared_ptr<PhysicalBlock> block = mapping->second.physical;
    State::Get().memory.Forget(mapping->first);
    syscall(SYS_mmap, mapping->first, mapping->second.bytes, PROT_NONE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    Virtual().mappings.erase(mapping);
    --block->mappings;
    EndIfUnreferenced(block);
  }
  return CUDA_SUCCESS;
}

CUresult impl::cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc* desc, size_t count) {
  if (desc == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  const auto found = MappingsIn(ptr, size);
  if (found.empty()) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    Device* device = nullptr;
    if (desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
    if (const CUresult result = FindDevice(desc[i].location.id, &device)) return result;
    for (const auto& mapping : found) {
      Device* owner = mapping->second.physical->device;
      if (device != owner && !PeersPossible(*device, *owner)) return CUDA_ERROR_INVALID_DEVICE;
    }
  }
  for (const auto& mapping : found) {
    bool readable = false;
    for (size_t i = 0; i < count; ++i) mapping->second.access[desc[i].location.id] = desc[i].flags;
    for (const auto& [device, flags] : mapping->second.access) readable |= flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
    syscall(SYS_mprotect, mapping->first, mapping->second.bytes, readable ? PROT_READ | PROT_WRITE : PROT_NONE);
    // No copy reads or writes through a multicast object.
    State::Get().memory.Find(mapping->first)->freeing = !readable || mapping->second.physical->multicast != nullptr;
  }
  return CUDA_SUCCESS;
}

CUresult impl::cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr ptr) {
  const auto& mappings = Virtual().mappings;
  const auto next = mappings.upper_bound(ptr);
  if (flags == nullptr || location == nullptr || next == mappings.begin()) return CUDA_ERROR_INVALID_VALUE;
  const auto& [base, mapping] = *std::prev(next);
  if (ptr - base >= mapping.bytes || location->type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
  const auto known = mapping.access.find(location->id);
  *flags = known == mapping.access.end() ? CU_MEM_ACCESS_FLAGS_PROT_NONE : known->second;
  return CUDA_SUCCESS;
}

}  // namespace simcuda
