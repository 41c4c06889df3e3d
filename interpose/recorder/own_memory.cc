#include "interpose/recorder/own_memory.h"

#include <sys/mman.h>

#include <cerrno>

namespace cuheap::recorder {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kArenaBlock = 256 * 1024;

std::size_t RoundUp(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }

}  // namespace

void* MapMemory(std::size_t bytes) {
  const int saved_errno = errno;
  void* memory =
      mmap(nullptr, RoundUp(bytes, kPage), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  errno = saved_errno;
  return memory == MAP_FAILED ? nullptr : memory;
}

void UnmapMemory(void* memory, std::size_t bytes) {
  const int saved_errno = errno;
  munmap(memory, RoundUp(bytes, kPage));
  errno = saved_errno;
}

void* Arena::Allocate(std::size_t bytes) {
  bytes = RoundUp(bytes, 64);
  if (bytes > kArenaBlock / 4) return MapMemory(bytes);
  std::lock_guard<std::mutex> lock(mutex_);
  if (static_cast<std::size_t>(end_ - next_) < bytes) {
    void* block = MapMemory(kArenaBlock);
    if (block == nullptr) return nullptr;
    next_ = static_cast<std::byte*>(block);
    end_ = next_ + kArenaBlock;
  }
  void* result = next_;
  next_ += bytes;
  return result;
}

}  // namespace cuheap::recorder
