// Bytes that several simulated processes have in common: a file without a name, with a page of facts behind the data.
//
// The same file serves memory that cuIpcGetMemHandle exports, memory of cuMemCreate and pools whose handles are file
// descriptors, and the events of a process. Another process gets it by a descriptor that was passed to it, or by the
// process and descriptor numbers in a handle. A key made of random bits, in the handle and in the file, tells whether
// the number still means that file; so a handle of something that is gone opens nothing.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace simcuda {

enum class SharedKind : uint32_t { kMemory = 1, kPhysical = 2, kPool = 3, kEvents = 4 };

struct SharedKey {
  uint64_t words[2] = {};
  bool operator==(const SharedKey&) const = default;
  auto operator<=>(const SharedKey&) const = default;
};

// What lies behind the data. Everything is written before the file is shared, but for `live`.
struct SharedFacts {
  static constexpr uint64_t kMagic = 0x53494d4355444131;  // "SIMCUDA1"
  // One for each 512 bytes of a page of 2 MiB: the number of the block that begins there as long as a handle may open
  // it, else 0. A file of one block uses the first only.
  static constexpr size_t kLive = 4096;

  uint64_t magic;
  SharedKind kind;
  int32_t device;  // as the machine counts it, before CUDA_VISIBLE_DEVICES
  SharedKey key;
  uint64_t bytes;
  std::atomic<uint64_t> live[kLive];
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

class SharedFile {
 public:
  // bytes: of the data, a multiple of 4096; only what is written takes memory. Returns: null when the kernel gives no
  // file.
  static std::shared_ptr<SharedFile> Create(SharedKind kind, int device, size_t bytes);
  // The file behind a descriptor that stays the caller's. Null if it is not one of ours, or of another kind.
  static std::shared_ptr<SharedFile> FromDescriptor(int descriptor, SharedKind kind);
  // The file that `process` has under the number. Null if it has not, or another one.
  static std::shared_ptr<SharedFile> FromProcess(pid_t process, int descriptor, const SharedKey& key, SharedKind kind);
  ~SharedFile();
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  // Puts [offset, offset + bytes) of the data at the address, in place of what is mapped there.
  // accessible: to be read and written; else no access.
  bool MapAt(uint64_t address, size_t bytes, uint64_t offset, bool accessible) const;
  // Puts it where there is room. Returns: null when there is none.
  void* Map(size_t bytes, uint64_t offset) const;
  // A further descriptor for the program, whose it is. -1 when there is none left.
  int Duplicate() const;
  // Writes what the process has in [address, address + bytes) to the file at 0; pages that were never touched are left
  // out. False without room.
  bool WriteFrom(uint64_t address, size_t bytes) const;

  SharedFacts& facts() const { return *facts_; }
  int descriptor() const { return descriptor_; }
  size_t bytes() const { return facts_->bytes; }

 private:
  SharedFile(int descriptor, SharedFacts* facts) : descriptor_(descriptor), facts_(facts) {}
  // Takes the descriptor over, closing it on failure.
  static std::shared_ptr<SharedFile> Adopt(int descriptor, SharedKind kind, const SharedKey* key);

  const int descriptor_;
  SharedFacts* const facts_;  // mapped
};

// Bits that no other process guesses or repeats.
SharedKey RandomKey();

}  // namespace simcuda
