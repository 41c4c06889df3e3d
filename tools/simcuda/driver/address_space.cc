#include "tools/simcuda/driver/address_space.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>

namespace simcuda {
namespace {

#if defined(__SANITIZE_THREAD__)
// ThreadSanitizer takes only a few ranges of addresses for the application's, none of them free and large: the kernel
// chooses, near the libraries, and ranges are no larger than needed.
constexpr uint64_t kFirstAddress = 0;
constexpr uint64_t kStride = 0;
#else
// Below the executable, above what AddressSanitizer keeps for itself.
constexpr uint64_t kFirstAddress = 0x2000'0000'0000;
constexpr uint64_t kStride = 0x100'0000'0000;
#endif

// The raw system calls: a sanitizer's interceptors would track terabytes of reserved addresses.
void* MapRaw(uint64_t address, size_t bytes, int flags) {
  const long result =
      syscall(SYS_mmap, address, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
  return result == -1 ? nullptr : reinterpret_cast<void*>(result);
}

bool ZeroBytes(const unsigned char* bytes, size_t count) {
  return count == 0 || (bytes[0] == 0 && std::memcmp(bytes, bytes + 1, count - 1) == 0);
}

}  // namespace

bool Area::Reserve(int index, size_t bytes) {
  const uint64_t place = kFirstAddress + static_cast<uint64_t>(index) * kStride;
  for (size_t size : {static_cast<size_t>(kStride), RoundUp(bytes, kPageBytes) * 2, RoundUp(bytes, kPageBytes)}) {
    if (size < bytes) continue;
    void* range = size <= kStride ? MapRaw(place, size, MAP_FIXED_NOREPLACE) : nullptr;
    // Before Linux 4.17 the flag is only a hint.
    if (range != nullptr && reinterpret_cast<uint64_t>(range) != place) {
      syscall(SYS_munmap, range, size);
      range = nullptr;
    }
    size_t lost = 0;
    if (range == nullptr) {
      range = MapRaw(0, size + kPageBytes, 0);
      if (range == nullptr) continue;
      lost = RoundUp(reinterpret_cast<uint64_t>(range), kPageBytes) - reinterpret_cast<uint64_t>(range);
    }
    base_ = reinterpret_cast<uint64_t>(range) + lost;
    size_ = size;
    // A touched byte must not commit 2 MiB, or large sparse memory would not fit this machine.
    syscall(SYS_madvise, base_, size_, MADV_NOHUGEPAGE);
    syscall(SYS_madvise, base_, size_, MADV_DONTDUMP);
    free_.emplace(base_, size_);
    return true;
  }
  return false;
}

uint64_t Area::Take(size_t bytes, size_t alignment) {
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    const uint64_t address = RoundUp(range->first, alignment);
    const uint64_t end = range->first + range->second;
    if (address >= end || end - address < bytes) continue;
    TakeAt(address, bytes);
    return address;
  }
  return 0;
}

bool Area::TakeAt(uint64_t address, size_t bytes) {
  auto range = free_.upper_bound(address);
  if (range == free_.begin()) return false;
  --range;
  const uint64_t start = range->first, end = start + range->second;
  if (address >= end || end - address < bytes) return false;
  free_.erase(range);
  if (address > start) free_.emplace(start, address - start);
  if (address + bytes < end) free_.emplace(address + bytes, end - address - bytes);
  return true;
}

uint64_t Area::Map(size_t bytes, size_t alignment) {
  const uint64_t address = Take(bytes, alignment);
  if (address == 0) return 0;
  if (OpenPages(address, bytes)) return address;
  Release(address, bytes);
  return 0;
}

void Area::Release(uint64_t address, size_t bytes) {
  ClosePages(address, bytes);
  auto next = free_.lower_bound(address);
  if (next != free_.end() && address + bytes == next->first) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == address) {
      previous->second += bytes;
      return;
    }
  }
  free_.emplace(address, bytes);
}

bool OpenPages(uint64_t address, size_t bytes) {
  return syscall(SYS_mprotect, address, bytes, PROT_READ | PROT_WRITE) == 0;
}

void ClosePages(uint64_t address, size_t bytes) {
  syscall(SYS_madvise, address, bytes, MADV_DONTNEED);
  syscall(SYS_mprotect, address, bytes, PROT_NONE);
}

void ResetPages(uint64_t address, size_t bytes) {
  MapRaw(address, bytes, MAP_FIXED);
  syscall(SYS_madvise, address, bytes, MADV_NOHUGEPAGE);
  syscall(SYS_madvise, address, bytes, MADV_DONTDUMP);
}

void FillBytes(uint64_t address, int value, size_t bytes, bool shared) {
  constexpr size_t kSmallPage = 4096;
  const uint64_t first = RoundUp(address, kSmallPage), last = (address + bytes) / kSmallPage * kSmallPage;
  if (value == 0 && last > first && last - first >= (size_t{1} << 20)) {
    std::memset(reinterpret_cast<void*>(address), 0, first - address);
    std::memset(reinterpret_cast<void*>(last), 0, address + bytes - last);
    if (syscall(SYS_madvise, first, last - first, shared ? MADV_REMOVE : MADV_DONTNEED) == 0) return;
  }
  std::memset(reinterpret_cast<void*>(address), value, bytes);
}

void CopyBytes(uint64_t to, uint64_t from, size_t bytes) {
  constexpr size_t kChunk = size_t{64} << 10;
  if (bytes < (size_t{1} << 20) || (to < from ? from - to : to - from) < bytes) {
    std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
    return;
  }
  for (size_t at = 0; at < bytes; at += kChunk) {
    const size_t count = std::min(kChunk, bytes - at);
    const auto* source = reinterpret_cast<const unsigned char*>(from + at);
    auto* target = reinterpret_cast<unsigned char*>(to + at);
    if (ZeroBytes(source, count) && ZeroBytes(target, count)) continue;
    std::memcpy(target, source, count);
  }
}

}  // namespace simcuda
