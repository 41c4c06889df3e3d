// Device memory as address space: reserved, mapped on demand, committed by the kernel only where something is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace simcuda {

inline constexpr size_t kPageBytes = size_t{2} << 20;  // what the driver maps at once, and our unit everywhere

constexpr size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// One reserved range of addresses (a device's memory, pinned host memory, ...), handed out lowest address first in
// units of 2 MiB. Nothing in it is accessible until it is mapped, so a use after a free faults.
//
// The range starts at the same address in every process that does the same things (the simulation must be repeatable),
// as long as that place is free; otherwise the kernel chooses.
class Area {
 public:
  // index: which of the fixed places; bytes: the most that will be mapped at once. The reserved range is larger where
  // the address space allows, so that fragmentation of addresses is not what ends a program. Returns: false when not
  // even `bytes` of address space are left.
  bool Reserve(int index, size_t bytes);

  // Maps the lowest free range. bytes: a multiple of kPageBytes; alignment: a power of two, at least kPageBytes.
  // Returns: 0 when no range is left.
  uint64_t Map(size_t bytes, size_t alignment = kPageBytes);
  // Takes the lowest free range without mapping it.
  uint64_t Take(size_t bytes, size_t alignment = kPageBytes);
  // Takes [address, address + bytes) if it is free.
  bool TakeAt(uint64_t address, size_t bytes);
  // Gives back a range from Map() or Take(); its pages are dropped and become inaccessible.
  void Release(uint64_t address, size_t bytes);

  bool reserved() const { return size_ != 0; }
  bool Contains(uint64_t address) const { return address - base_ < size_; }

 private:
  uint64_t base_ = 0;
  size_t size_ = 0;
  std::map<uint64_t, size_t> free_;  // address -> bytes, never adjacent
};

// Makes pages readable and writable, zero-filled at first touch. Returns: false when the kernel refuses.
bool OpenPages(uint64_t address, size_t bytes);
// Drops the pages' contents and makes them inaccessible.
void ClosePages(uint64_t address, size_t bytes);

// Puts fresh, inaccessible pages in place of whatever is mapped there (a file's pages).
void ResetPages(uint64_t address, size_t bytes);

// Sets bytes without committing more pages than needed: zeros over whole pages give the pages back.
// shared: the pages belong to a file (virtual_memory.h).
void FillBytes(uint64_t address, int value, size_t bytes, bool shared = false);
// Copies (the ranges may overlap) without committing pages of the destination where source and destination are both
// zero.
void CopyBytes(uint64_t to, uint64_t from, size_t bytes);

}  // namespace simcuda
