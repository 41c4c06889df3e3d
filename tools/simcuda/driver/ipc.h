// Device memory of other processes, opened by handle (Driver API reference 6.13, cuIpcOpenMemHandle).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>

#include "tools/simcuda/driver/cuda_api.h"
#include "tools/simcuda/driver/shared_file.h"

namespace simcuda {

struct Context;
struct Device;

// What the 64 bytes of a CUipcMemHandle hold.
struct MemoryHandle {
  static constexpr uint64_t kMagic = 0x4d49504353494d31;

  uint64_t magic = kMagic;
  SharedKey key;  // of the file
  int32_t process = 0;
  int32_t descriptor = 0;  // in that process
  uint64_t block_id = 0;   // never repeated in that process: what was freed is not opened
  uint64_t offset = 0;     // of the block in the file
  uint64_t bytes = 0;      // of the block, as it was asked for
  uint64_t reserved = 0;
};
static_assert(sizeof(MemoryHandle) == sizeof(CUipcMemHandle));

// Guarded by the driver's lock.
class ImportedMemory {
 public:
  // Maps the block's file for the context, once however many of its blocks are opened.
  // Errors: INVALID_HANDLE for a handle that means nothing (any more), INVALID_CONTEXT in the process that exported it
  // and where another context of the device has opened memory of that process and device, MAP_FAILED.
  CUresult Open(Context& context, const MemoryHandle& handle, CUdeviceptr* address);
  // Ends one opening. Errors: INVALID_VALUE for an address that Open() did not return.
  CUresult Close(CUdeviceptr address);
  // The block is not known any more: what mapped it may go.
  void BlockGone(uint64_t address);

 private:
  struct Range {
    std::shared_ptr<SharedFile> file;
    Context* context = nullptr;
    Device* device = nullptr;  // whose memory it is
    pid_t exporter = 0;
    std::map<uint64_t, unsigned> opened;  // how often, by the block's offset
  };
  using Ranges = std::map<uint64_t, Range>;  // by the address of the mapping

  CUresult MapRange(Context& context, const MemoryHandle& handle, Ranges::iterator* range);
  Ranges::iterator FindRange(const SharedKey& key, const Context& context);
  void UnmapIfUnused(Ranges::iterator range);
  Ranges::iterator RangeAt(uint64_t address);

  Ranges ranges_;
};

}  // namespace simcuda
