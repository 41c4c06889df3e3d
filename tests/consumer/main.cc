// Uses the pool as a stranger would: an installed header, an installed archive, memory of its own invention.
#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "allocator/sync_pool.h"

namespace {

// Hands out addresses, not memory: enough for a pool, which never touches what it manages.
class CountingMemory {
 public:
  cuheap::DriverResult Allocate(std::size_t bytes, std::uint64_t* out) {
    *out = next_;
    next_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    ++allocations_;
    return {};
  }
  cuheap::DriverResult Free(std::uint64_t /*address*/) { return {}; }
  cuheap::DriverResult Synchronize(std::uint64_t /*context*/) { return {}; }
  int allocations() const { return allocations_; }

 private:
  static constexpr std::uint64_t kAlignment = std::uint64_t{2} << 20;
  std::uint64_t next_ = std::uint64_t{1} << 40;
  int allocations_ = 0;
};

}  // namespace

int main() {
  CountingMemory memory;
  cuheap::SyncPool pool(memory, nullptr, {});
  const auto first = pool.Allocate(1, 0, std::size_t{4} << 20);
  if (!first.result.ok() || pool.Free(first.block.address).status != cuheap::FreeStatus::kFreed) return 1;
  pool.EndSynchronize(1, pool.BeginSynchronize(1), true);
  const auto second = pool.Allocate(1, 0, std::size_t{4} << 20);
  const bool reused = second.result.ok() && second.block.address == first.block.address && memory.allocations() == 1;
  std::puts(reused ? "reused" : "not reused");
  return reused ? 0 : 1;
}
