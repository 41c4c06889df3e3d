// Handles of packed blocks for other processes: the 64 bytes in place of the driver's, and the side table they point to.
//
// A packed block lies somewhere in a slab, and the driver only knows handles of slabs. So its handle is ours: it names a
// table of the process that exported the block, and an entry there with the driver's handle of the slab and the block's
// place in it. An importer with this library looks the entry up and opens the slab; one without passes bytes to its
// driver that no driver has made, and gets an error.
//
// All bytes read here come from other processes: nothing is believed that does not fit.
#ifndef CUHEAP_INTERPOSE_IPC_HANDLE_H_
#define CUHEAP_INTERPOSE_IPC_HANDLE_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "interpose/cuda_api.h"

namespace cuheap::ipc {

struct Key {
  std::uint64_t words[2] = {};
  bool operator==(const Key&) const = default;
};

// What stands in the 64 bytes that the program passes on.
struct Handle {
  static constexpr std::uint64_t kMagic = 0x3148435044454850;  // not a driver's: also told by the check
  static constexpr std::uint32_t kVersion = 1;

  std::uint64_t magic = kMagic;
  std::uint32_t version = kVersion;
  std::int32_t process = 0;
  std::int32_t descriptor = 0;  // of the table, in that process
  std::uint32_t index = 0;      // of the entry
  Key table;
  std::uint64_t entry = 0;  // the entry's own key: another one once the block is freed
  std::uint64_t reserved = 0;
  std::uint64_t check = 0;  // of all before
};
static_assert(sizeof(Handle) == sizeof(CUipcMemHandle));

// The table: this, then entries.
struct TableHeader {
  static constexpr std::uint64_t kMagic = 0x314c4254485543;

  std::uint64_t magic = kMagic;
  std::uint32_t version = Handle::kVersion;
  std::uint32_t entries = 0;
  Key key;
  std::uint64_t reserved[12] = {};
};
struct TableEntry {
  std::uint64_t key = 0;  // 0: no block
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;  // of the block, as it was asked for
  std::uint64_t segment_bytes = 0;
  CUipcMemHandle driver_handle = {};  // of the slab
  std::uint64_t reserved[3] = {};
  std::uint64_t check = 0;  // of all before: a half-written entry is none
};
static_assert(sizeof(TableHeader) == 128 && sizeof(TableEntry) == 128);
inline constexpr std::uint32_t kTableEntries = 1u << 16;

// A packed block of another process.
struct SharedBlock {
  CUipcMemHandle driver_handle = {};
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t segment_bytes = 0;
};

// FNV-1a of all that lies before the member `check`.
template <class Record>
std::uint64_t CheckOf(const Record& record) {
  unsigned char bytes[offsetof(Record, check)];
  std::memcpy(bytes, &record, sizeof(bytes));
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const unsigned char byte : bytes) hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

// Empty for a handle of a driver, of another version, or damaged.
inline std::optional<Handle> ParseHandle(const CUipcMemHandle& bytes) {
  const auto handle = std::bit_cast<Handle>(bytes);
  const bool ours = handle.magic == Handle::kMagic && handle.version == Handle::kVersion &&
                    handle.check == CheckOf(handle) && handle.process > 0 && handle.descriptor >= 0 &&
                    handle.index < kTableEntries && handle.entry != 0;
  return ours ? std::optional(handle) : std::nullopt;
}

inline std::uint64_t EntryPlace(const Handle& handle) {
  return sizeof(TableHeader) + std::uint64_t{handle.index} * sizeof(TableEntry);
}

// The block, if these are the header of the handle's table and the handle's entry.
inline std::optional<SharedBlock> ReadEntry(const Handle& handle, const TableHeader& header, const TableEntry& entry) {
  if (header.magic != TableHeader::kMagic || header.version != Handle::kVersion || header.key != handle.table ||
      handle.index >= header.entries) {
    return std::nullopt;
  }
  if (entry.key != handle.entry || entry.check != CheckOf(entry)) return std::nullopt;
  if (entry.bytes == 0 || entry.offset >= entry.segment_bytes || entry.bytes > entry.segment_bytes - entry.offset) {
    return std::nullopt;
  }
  // A table that leads to a table would lead round and round.
  if (ParseHandle(entry.driver_handle)) return std::nullopt;
  return SharedBlock{entry.driver_handle, entry.offset, entry.bytes, entry.segment_bytes};
}

// Looks the block up in the other process's table. Empty if that process, its table or the entry is gone, or may not be
// read (another user's, or one that forbids being traced). Makes no driver call; keeps errno.
std::optional<SharedBlock> Resolve(const Handle& handle);

}  // namespace cuheap::ipc

#endif  // CUHEAP_INTERPOSE_IPC_HANDLE_H_
