#include "tools/simcuda/driver/memory.h"

#include <cstdio>
#include <iterator>
#include <utility>
#include <vector>

#include "tools/simcuda/driver/context.h"
#include "tools/simcuda/driver/shared_file.h"
#include "tools/simcuda/driver/state.h"

namespace simcuda {
namespace {

// Places of the areas: address_space.cc turns them into addresses.
constexpr int kHostPlace = 0, kManagedPlace = 1, kVirtualPlace = 2, kDevicePlace = 3;
constexpr size_t kSharedBytes = size_t{16} << 30;  // address space for host and managed memory, at least

bool ReserveOnce(Area* area, int place, size_t bytes) { return area->reserved() || area->Reserve(place, bytes); }

}  // namespace

const char* KindName(Kind kind) {
  switch (kind) {
    case Kind::kDevice:
      return "device";
    case Kind::kManaged:
      return "managed";
    case Kind::kHost:
      return "host";
    case Kind::kRegistered:
      return "registered";
    case Kind::kPool:
      return "pool";
    case Kind::kVariable:
      return "variable";
    case Kind::kVirtual:
      return "virtual";
    case Kind::kImported:
      return "imported";
    case Kind::kGraph:
      return "graph";
    case Kind::kArray:
      return "array";
  }
  return "?";
}

std::string HexText(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

Area& Memory::DeviceArea(Device& device) {
  Area& area = device_areas_[device.ordinal];
  ReserveOnce(&area, kDevicePlace + device.ordinal, device.total_bytes);
  return area;
}

Area& Memory::VirtualArea() {
  ReserveOnce(&virtual_area_, kVirtualPlace, kSharedBytes);
  return virtual_area_;
}

Block* Memory::Add(Block block) {
  block.buffer_id = NextBufferId();
  const uint64_t base = block.base;
  return &blocks_.insert_or_assign(base, std::move(block)).first->second;
}

CUresult Memory::MapDevicePages(Device& device, size_t bytes, uint64_t* address) {
  if (const CUresult result = device.Charge(bytes)) return result;
  *address = DeviceArea(device).Map(bytes);
  if (*address != 0) return CUDA_SUCCESS;
  device.Refund(bytes);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

void Memory::UnmapDevicePages(Device& device, uint64_t address, size_t bytes) {
  // Whoever imported the pages keeps them; nobody opens them any more, since the file is closed.
  if (shared_.erase(address) != 0) ResetPages(address, bytes);
  DeviceArea(device).Release(address, bytes);
  device.Refund(bytes);
}

CUresult Memory::AllocateDevice(Context& context, size_t bytes, Kind kind, Block** block) {
  Device& device = *context.device;
  if (bytes > device.total_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  Block made;
  made.size = bytes;
  made.kind = kind;
  made.device = &device;
  made.context = &context;
  made.small = bytes <= kLargestSmall;
  made.reserved = RoundUp(bytes, made.small ? kSmallUnit : kPageBytes);
  const CUresult result = made.small ? AllocateSmall(context, made.reserved, &made.base)
                                     : MapDevicePages(device, made.reserved, &made.base);
  if (result != CUDA_SUCCESS) return result;
  *block = Add(made);
  return CUDA_SUCCESS;
}

CUresult Memory::AllocateSmall(Context& context, size_t reserved, uint64_t* address) {
  SmallPages& pages = small_[&context];
  for (auto& [base, page] : pages) {
    for (auto range = page.free.begin(); range != page.free.end(); ++range) {
      if (range->second < reserved) continue;
      *address = range->first;
      const size_t rest = range->second - reserved;
      page.free.erase(range);
      if (rest > 0) page.free.emplace(*address + reserved, rest);
      page.used += reserved;
      return CUDA_SUCCESS;
    }
  }
  uint64_t base = 0;
  if (const CUresult result = MapDevicePages(*context.device, kPageBytes, &base)) return result;
  SmallPage page;
  page.device = context.device;
  page.used = reserved;
  page.free.emplace(base + reserved, kPageBytes - reserved);
  pages.emplace(base, std::move(page));
  *address = base;
  return CUDA_SUCCESS;
}

void Memory::ReleaseSmall(Context& context, uint64_t address, size_t reserved) {
  SmallPages& pages = small_[&context];
  const auto found = std::prev(pages.upper_bound(address));
  SmallPage& page = found->second;
  page.used -= reserved;
  if (page.used == 0) {
    UnmapDevicePages(*page.device, found->first, kPageBytes);
    pages.erase(found);
    return;
  }
  const auto next = page.free.lower_bound(address);
  if (next != page.free.end() && next->first == address + reserved) {
    reserved += next->second;
    page.free.erase(next);
  }
  const auto after = page.free.lower_bound(address);
  if (after != page.free.begin() && std::prev(after)->first + std::prev(after)->second == address) {
    std::prev(after)->second += reserved;
  } else {
    page.free.emplace(address, reserved);
  }
}

CUresult Memory::AllocateShared(Context& context, size_t bytes, Kind kind, unsigned flags, Block** block) {
  Area& area = kind == Kind::kHost ? host_area_ : managed_area_;
  const size_t reserved = RoundUp(bytes, kPageBytes);
  if (reserved < bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  if (!ReserveOnce(&area, kind == Kind::kHost ? kHostPlace : kManagedPlace, kSharedBytes))
    return CUDA_ERROR_OUT_OF_MEMORY;
  Block made;
  made.base = area.Map(reserved);
  if (made.base == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  made.size = bytes;
  made.reserved = reserved;
  made.kind = kind;
  made.device = context.device;
  made.context = &context;
  made.flags = flags;
  *block = Add(made);
  return CUDA_SUCCESS;
}

CUresult Memory::RegisterHost(Context& context, uint64_t address, size_t bytes, unsigned flags, Block** block) {
  const auto next = blocks_.lower_bound(address);
  if (next != blocks_.end() && next->first < address + bytes) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  if (Find(address) != nullptr) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  Block made;
  made.base = address;
  made.size = made.reserved = bytes;
  made.kind = Kind::kRegistered;
  made.device = context.device;
  made.context = &context;
  made.flags = flags;
  *block = Add(made);
  return CUDA_SUCCESS;
}

Block* Memory::AddPoolBlock(std::shared_ptr<Pool> pool, Device& device, uint64_t address, size_t bytes,
                            size_t reserved) {
  Block made;
  made.base = address;
  made.size = bytes;
  made.reserved = reserved;
  made.kind = Kind::kPool;
  made.device = &device;
  made.pool = std::move(pool);
  return Add(made);
}

Block* Memory::AddVirtual(Device* device, uint64_t address, size_t bytes) {
  Block made;
  made.base = address;
  made.size = made.reserved = bytes;
  made.kind = Kind::kVirtual;
  made.device = device;
  return Add(made);
}

Block* Memory::AddImported(Context& context, Device& device, uint64_t address, size_t bytes) {
  Block made;
  made.base = address;
  made.size = made.reserved = bytes;
  made.kind = Kind::kImported;
  made.device = &device;
  made.context = &context;
  return Add(made);
}

std::shared_ptr<SharedFile> Memory::Share(const Block& block, uint64_t* offset) {
  const uint64_t base = block.small ? std::prev(small_[block.context].upper_bound(block.base))->first : block.base;
  const size_t bytes = block.small ? kPageBytes : block.reserved;
  *offset = block.base - base;
  std::shared_ptr<SharedFile>& known = shared_[base];
  if (!known) {
    auto file = SharedFile::Create(SharedKind::kMemory, block.device->physical, bytes);
    if (!file || !file->WriteFrom(base, bytes) || !file->MapAt(base, bytes, 0, true)) {
      shared_.erase(base);
      return nullptr;
    }
    known = std::move(file);
  }
  known->facts().live[*offset / kSmallUnit] = block.buffer_id;
  return known;
}

bool Memory::FileBacked(uint64_t address) {
  const auto next = shared_.upper_bound(address);
  if (next != shared_.begin() && address - std::prev(next)->first < std::prev(next)->second->bytes()) return true;
  const Block* block = Find(address);
  if (block == nullptr) return false;
  return block->kind == Kind::kVirtual || block->kind == Kind::kImported ||
         (block->kind == Kind::kPool && block->pool->file != nullptr);
}

void Memory::ForgetHandles(const Block& block) {
  const auto next = shared_.upper_bound(block.base);
  if (next == shared_.begin()) return;
  const auto& [base, file] = *std::prev(next);
  if (block.base - base < file->bytes()) file->facts().live[(block.base - base) / kSmallUnit] = 0;
}

void Memory::AddGraphBlock(Device& device, uint64_t address, size_t bytes, size_t reserved) {
  const Block* before = Find(address);
  Block made;
  made.base = address;
  made.size = bytes;
  made.reserved = reserved;
  made.kind = Kind::kGraph;
  made.device = &device;
  made.open = before != nullptr && before->open;
  Add(made);
}

bool Memory::Accessible(uint64_t address, size_t bytes) {
  const auto next = blocks_.upper_bound(address);
  if (next == blocks_.begin()) return false;
  const Block& block = std::prev(next)->second;
  if (block.kind != Kind::kGraph) return Covers(address, bytes);
  // Allocations of one graph may share a range one after the other: the newest one's size says nothing of the others'.
  const size_t offset = address - block.base;
  return block.open && offset < block.reserved && bytes <= block.reserved - offset;
}

void Memory::Release(uint64_t base, const char* why) {
  const auto found = blocks_.find(base);
  if (found == blocks_.end()) return;
  const Block block = found->second;
  blocks_.erase(found);
  if (why != nullptr) {
    State::Get().log.Note("release address=" + HexText(base) + " bytes=" + std::to_string(block.size) +
                          " kind=" + KindName(block.kind) + " why=" + why);
  }
  switch (block.kind) {
    case Kind::kDevice:
    case Kind::kVariable:
    case Kind::kArray:
      ForgetHandles(block);
      if (block.small) {
        ReleaseSmall(*block.context, base, block.reserved);
      } else {
        UnmapDevicePages(*block.device, base, block.reserved);
      }
      return;
    case Kind::kManaged:
      return managed_area_.Release(base, block.reserved);
    case Kind::kHost:
      return host_area_.Release(base, block.reserved);
    case Kind::kImported:
      return State::Get().ipc.BlockGone(base);
    case Kind::kRegistered:
    case Kind::kPool:
    case Kind::kVirtual:
    case Kind::kGraph:
      return;  // their pages are not ours
  }
}

void Memory::ReleaseContext(Context& context, const char* why) {
  std::vector<uint64_t> bases;
  for (const auto& [base, block] : blocks_) {
    if (block.context == &context) bases.push_back(base);
  }
  for (uint64_t base : bases) Release(base, why);
  small_.erase(&context);
}

Block* Memory::Find(uint64_t address) {
  auto next = blocks_.upper_bound(address);
  if (next == blocks_.begin()) return nullptr;
  Block& block = std::prev(next)->second;
  return address - block.base < block.size && block.kind != Kind::kArray ? &block : nullptr;
}

size_t Memory::BytesFrom(uint64_t address) {
  auto next = blocks_.upper_bound(address);
  if (next == blocks_.begin()) return 0;
  const Block& block = std::prev(next)->second;
  if (address - block.base >= block.size) return 0;
  size_t bytes = block.size - (address - block.base);
  if (block.kind != Kind::kVirtual) return bytes;
  // A range may be mapped from several pieces of physical memory.
  for (; next != blocks_.end() && next->first == address + bytes; ++next) {
    if (next->second.kind != Kind::kVirtual || next->second.freeing) break;
    bytes += next->second.size;
  }
  return bytes;
}

bool Memory::InDeviceRange(uint64_t address) const {
  for (const auto& [ordinal, area] : device_areas_) {
    if (area.Contains(address)) return true;
  }
  return host_area_.Contains(address) || managed_area_.Contains(address) || virtual_area_.Contains(address);
}

void Memory::ForEachBlock(const std::function<void(const Block&)>& visit) const {
  for (const auto& [base, block] : blocks_) visit(block);
}

}  // namespace simcuda
