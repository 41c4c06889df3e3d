// Virtual Memory Management (Driver API reference 6.14): physical memory and addresses apart.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>

#include "tools/simcuda/driver/cuda_api.h"

namespace simcuda {

struct Device;
struct PhysicalBlock;
class SharedFile;

// Physical memory of one device: ranges of one sparse file, so that it keeps its bytes when it is unmapped and mapped
// elsewhere, or mapped twice.
class PhysicalMemory {
 public:
  // bytes: a multiple of 2 MiB. Returns: false when the kernel gives no file.
  bool Take(size_t bytes, uint64_t* offset);
  // Fills the range. False when the kernel refuses to map it.
  bool Fill(uint64_t offset, size_t bytes, int byte) const;
  // Drops the bytes: whoever gets the range next reads zeros.
  void Release(uint64_t offset, size_t bytes);
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
  std::map<uint64_t, size_t> free_;
};

// What cuMulticastCreate makes: memory of several devices behind one address. Only the books are kept: what a kernel
// does through such an address, the multimem instructions alone say.
struct Multicast {
  struct Bound {
    std::shared_ptr<PhysicalBlock> physical;  // null: a block of a memory pool
    size_t bytes = 0;
  };
  unsigned team = 0;  // CUmulticastObjectProp::numDevices
  std::set<int> devices;
  std::map<int, std::map<size_t, Bound>> bound;  // by device and offset
};

// What cuMemCreate makes. It lives as long as handles or mappings refer to it.
struct PhysicalBlock {
  CUmemGenericAllocationHandle handle = 0;
  Device* device = nullptr;
  CUmemAllocationProp props{};
  uint64_t offset = 0;
  size_t bytes = 0;
  std::shared_ptr<SharedFile> file;      // of its own, if its handle may be shared or is another process's
  bool imported = false;                 // the process that made it is charged for it
  unsigned references = 0;               // cuMemCreate and cuMemRetainAllocationHandle, less cuMemRelease
  unsigned mappings = 0;                 // and bindings to multicast objects
  std::shared_ptr<Multicast> multicast;  // cuMulticastCreate: no memory of its own
};

struct Mapping {
  std::shared_ptr<PhysicalBlock> physical;
  size_t bytes = 0;
  std::map<int, CUmemAccess_flags> access;  // by device ordinal
};

// A handle for a new block; one reference.
CUmemGenericAllocationHandle AddBlock(const std::shared_ptr<PhysicalBlock>& block);
// Ends the block if neither a handle nor a mapping nor a binding is left.
void EndIfUnreferenced(const std::shared_ptr<PhysicalBlock>& block);

struct VirtualMemory {
  std::map<int, PhysicalMemory> devices;
  std::map<CUmemGenericAllocationHandle, std::shared_ptr<PhysicalBlock>> blocks;
  std::map<uint64_t, size_t> reservations;  // address -> bytes
  std::map<uint64_t, Mapping> mappings;     // by address
  CUmemGenericAllocationHandle next_handle = 0x59000040;
};

}  // namespace simcuda
