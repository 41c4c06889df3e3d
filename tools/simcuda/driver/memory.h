// Every range of memory that the simulated driver knows: device, managed, pinned host, pools', modules' variables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "tools/simcuda/driver/address_space.h"
#include "tools/simcuda/driver/cuda_api.h"

namespace simcuda {

struct Context;
struct Device;
struct Pool;
class SharedFile;

enum class Kind { kDevice, kManaged, kHost, kRegistered, kPool, kVariable, kVirtual, kImported, kGraph, kArray };
const char* KindName(Kind kind);
std::string HexText(uint64_t value);

// Alignment of small blocks. The documentation promises 256; every card since Kepler gives 512.
inline constexpr size_t kSmallUnit = 512;
// Requests up to this share 2 MiB pages with others of their context; larger ones get whole pages.
inline constexpr size_t kLargestSmall = size_t{1} << 20;

struct Block {
  uint64_t base = 0;
  size_t size = 0;      // as asked for
  size_t reserved = 0;  // address space taken: whole pages, or units of a shared page
  Kind kind = Kind::kDevice;
  Device* device = nullptr;
  Context* context = nullptr;  // null for pool and virtual memory: it belongs to the device
  std::shared_ptr<Pool> pool;
  uint64_t buffer_id = 0;  // never repeated
  unsigned flags = 0;      // of cuMemHostAlloc, cuMemHostRegister, cuMemAllocManaged
  bool sync_memops = false;
  bool small = false;    // inside a shared page
  bool open = true;      // false: a graph's memory outside the time between its allocation and its free
  bool freeing = false;  // a stream-ordered free is queued, or a mapping without access: new calls may not name it
};

// Not thread-safe: the driver's lock guards it.
class Memory {
 public:
  // A block of device memory owned by `context`. Charges the device: whole pages of 2 MiB for requests over 1 MiB, and
  // a page for the first small block that needs a new one. Errors: OUT_OF_MEMORY.
  CUresult AllocateDevice(Context& context, size_t bytes, Kind kind, Block** block);
  // Memory that the host reads too. Managed memory charges no device (it lives where it is touched), nor does host
  // memory.
  CUresult AllocateShared(Context& context, size_t bytes, Kind kind, unsigned flags, Block** block);
  // Makes the program's own memory pinned. Errors: HOST_MEMORY_ALREADY_REGISTERED.
  CUresult RegisterHost(Context& context, uint64_t address, size_t bytes, unsigned flags, Block** block);
  // A block of a pool, in pages that the pool has mapped and charged.
  Block* AddPoolBlock(std::shared_ptr<Pool> pool, Device& device, uint64_t address, size_t bytes, size_t reserved);
  // A range whose pages somebody else maps.
  Block* AddVirtual(Device* device, uint64_t address, size_t bytes);
  // Memory of a graph, not accessible before its allocation node has run. Replaces the block at the address, and keeps
  // whether it is open.
  void AddGraphBlock(Device& device, uint64_t address, size_t bytes, size_t reserved);

  // Memory of another process, mapped in the context by somebody else (ipc.h).
  Block* AddImported(Context& context, Device& device, uint64_t address, size_t bytes);

  // Makes the pages that hold a block of device memory a file, where they are: for a small block those of its neighbours
  // too. Their addresses and bytes stay. *offset: of the block in the file. Null when the kernel gives no file.
  std::shared_ptr<SharedFile> Share(const Block& block, uint64_t* offset);
  // Whether the pages there belong to a file: zeroing them takes another call.
  bool FileBacked(uint64_t address);

  // Gives the block back; refunds what it charged. The pages become inaccessible.
  void Release(uint64_t base, const char* why = nullptr);
  // All that belongs to the context.
  void ReleaseContext(Context& context, const char* why);
  // Only forgets the block: its pages belong to a pool.
  void Forget(uint64_t base) { blocks_.erase(base); }

  // The block that contains the address; null when there is none, and inside an array, which no address names.
  Block* Find(uint64_t address);
  // How many bytes from `address` on may be used at once: to the end of the block, or of adjacent mappings of virtual
  // memory. 0 for an address that is in no block.
  size_t BytesFrom(uint64_t address);
  bool Covers(uint64_t address, size_t bytes) { return bytes <= BytesFrom(address); }
  // The same for work that runs: memory of a graph is there only between its allocation and its free.
  bool Accessible(uint64_t address, size_t bytes);

  // Whether the address lies in a range reserved for device, managed or pinned memory, in use or not.
  bool InDeviceRange(uint64_t address) const;

  Area& DeviceArea(Device& device);
  Area& VirtualArea();
  // Pages for a pool. Errors: OUT_OF_MEMORY.
  CUresult MapDevicePages(Device& device, size_t bytes, uint64_t* address);
  void UnmapDevicePages(Device& device, uint64_t address, size_t bytes);

  void ForEachBlock(const std::function<void(const Block&)>& visit) const;
  size_t block_count() const { return blocks_.size(); }
  uint64_t NextBufferId() { return next_buffer_id_++; }

 private:
  // A 2 MiB page shared by small blocks of one context.
  struct SmallPage {
    Device* device = nullptr;
    std::map<uint64_t, size_t> free;  // address -> bytes, never adjacent
    size_t used = 0;
  };
  using SmallPages = std::map<uint64_t, SmallPage>;

  void ForgetHandles(const Block& block);
  CUresult AllocateSmall(Context& context, size_t reserved, uint64_t* address);
  void ReleaseSmall(Context& context, uint64_t address, size_t reserved);
  Block* Add(Block block);

  std::map<uint64_t, Block> blocks_;  // by base; never overlapping
  std::map<Context*, SmallPages> small_;
  std::map<uint64_t, std::shared_ptr<SharedFile>> shared_;  // pages that Share() made a file, by first address
  std::map<int, Area> device_areas_;
  Area host_area_, managed_area_, virtual_area_;
  uint64_t next_buffer_id_ = 1;
};

}  // namespace simcuda
