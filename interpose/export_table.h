// The side table of packed blocks that this process has given handles of (ipc_handle.h).
//
// It is a file without a name (memfd), which other processes of the user reach as /proc/PID/fd/N: it is there exactly as
// long as this process, however that ends; there is no folder to choose, to guard or to clean up.
#ifndef CUHEAP_INTERPOSE_EXPORT_TABLE_H_
#define CUHEAP_INTERPOSE_EXPORT_TABLE_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "allocator/sync_pool_types.h"
#include "interpose/ipc_handle.h"

namespace cuheap {

// Thread-safe. Nothing but a load is paid while nothing is exported.
class ExportTable {
 public:
  ExportTable() = default;
  ExportTable(const ExportTable&) = delete;
  ExportTable& operator=(const ExportTable&) = delete;

  // Writes the handle of the block, whose slab has the driver's handle: the same one as long as the block lives. False
  // if the kernel gives no file, or the table is full.
  bool Publish(const PoolBlock& block, const CUipcMemHandle& driver_handle, CUipcMemHandle* handle);
  // The block at the address was freed: its handle opens nothing any more.
  void Withdraw(std::uint64_t address) {
    if (any_.load(std::memory_order_acquire)) Forget(address);
  }
  void ContextDestroyed(ContextId context);

 private:
  struct Published {
    ContextId context = 0;
    std::uint64_t incarnation = 0;
    std::uint32_t index = 0;
    std::uint64_t key = 0;
  };

  void Forget(std::uint64_t address);
  void Clear(const Published& published);
  bool Prepare();
  bool MakeTable();

  std::atomic<bool> any_{false};
  std::mutex mutex_;  // guards what follows; held over no call but the kernel's
  int descriptor_ = -1;
  dev_t device_ = 0;  // of the file: whether the descriptor is still ours
  ino_t inode_ = 0;
  ipc::TableHeader* header_ = nullptr;
  ipc::TableEntry* entries_ = nullptr;
  std::uint32_t used_ = 0;
  std::vector<std::uint32_t> free_;
  std::unordered_map<std::uint64_t, Published> published_;  // by address
};

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_EXPORT_TABLE_H_
