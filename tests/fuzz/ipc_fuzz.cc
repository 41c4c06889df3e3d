// Fuzzes what an importer believes of another process: a handle and its table's header and entry, whatever their bytes.
// A block that comes out lies in its slab.
//
//   bytes 0 to 63     the handle
//   then 128 bytes    the table's header
//   then 128 bytes    the entry; what is missing is 0
//   then 1 byte       bit 0: put the right check into the handle; bit 1: into the entry; bit 2: make the magics and keys
//                     agree, since random bytes would never get past them
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "interpose/ipc_handle.h"

namespace ipc = cuheap::ipc;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto take = [&](void* to, std::size_t bytes) {
    const std::size_t count = std::min(bytes, size);
    std::memcpy(to, data, count);
    data += count;
    size -= count;
  };
  CUipcMemHandle bytes = {};
  ipc::TableHeader header;
  ipc::TableEntry entry;
  std::uint8_t mend = 0;
  take(&bytes, sizeof(bytes));
  take(&header, sizeof(header));
  take(&entry, sizeof(entry));
  take(&mend, sizeof(mend));
  auto handle = std::bit_cast<ipc::Handle>(bytes);
  if ((mend & 4) != 0) {
    handle.magic = ipc::Handle::kMagic;
    header.magic = ipc::TableHeader::kMagic;
    handle.version = header.version = ipc::Handle::kVersion;
    header.key = handle.table;
    entry.key = handle.entry;
  }
  if ((mend & 1) != 0) handle.check = ipc::CheckOf(handle);
  if ((mend & 2) != 0) entry.check = ipc::CheckOf(entry);
  const auto parsed = ipc::ParseHandle(std::bit_cast<CUipcMemHandle>(handle));
  if (!parsed) return 0;
  const auto block = ipc::ReadEntry(*parsed, header, entry);
  if (!block) return 0;
  const bool inside = block->bytes > 0 && block->offset < block->segment_bytes &&
                      block->offset + block->bytes > block->offset && block->offset + block->bytes <= block->segment_bytes;
  if (!inside || ipc::ParseHandle(block->driver_handle)) std::abort();
  return 0;
}
