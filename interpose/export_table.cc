#include "interpose/export_table.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace cuheap {
namespace {

constexpr std::size_t kTableBytes = sizeof(ipc::TableHeader) + ipc::kTableEntries * sizeof(ipc::TableEntry);
// Numbers below are the program's: closed standard streams, tables of its own, the next one that open() gives.
constexpr int kLowestDescriptor = 100;
constexpr unsigned kFileFlags = 1 | 2;  // MFD_CLOEXEC, MFD_ALLOW_SEALING, which glibc 2.27 brought
constexpr int kAddSeals = 1033;         // F_ADD_SEALS
constexpr int kSeals = 1 | 2 | 4;       // F_SEAL_SEAL, _SHRINK, _GROW: a table cut short by others would end this process

class KeepErrno {
 public:
  KeepErrno() : saved_(errno) {}
  ~KeepErrno() { errno = saved_; }
  KeepErrno(const KeepErrno&) = delete;
  KeepErrno& operator=(const KeepErrno&) = delete;

 private:
  const int saved_;
};

void FillRandom(void* bytes, std::size_t size) {
  if (syscall(SYS_getrandom, bytes, size, 1 /* GRND_NONBLOCK */) == static_cast<long>(size)) return;
  // Enough to tell tables and entries apart, which is all that is needed: who may read a table is the kernel's to say.
  static std::atomic<std::uint64_t> count{0};
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  std::uint64_t state = static_cast<std::uint64_t>(now.tv_nsec) ^ static_cast<std::uint64_t>(now.tv_sec) << 30 ^
                        static_cast<std::uint64_t>(getpid()) << 44 ^ ++count;
  auto* out = static_cast<unsigned char*>(bytes);
  for (std::size_t i = 0; i < size; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    out[i] = static_cast<unsigned char>(state >> 56);
  }
}

std::uint64_t EntryKey() {
  std::uint64_t key = 0;
  while (key == 0) FillRandom(&key, sizeof(key));
  return key;
}

// Gets the memory behind a range of the file: touching it without would end the process where there is none left.
bool Allocate(int descriptor, std::uint64_t at, std::size_t size) {
  return fallocate(descriptor, 0, static_cast<off_t>(at), static_cast<off_t>(size)) == 0;
}

bool ReadAt(int descriptor, void* to, std::size_t size, std::uint64_t at) {
  ssize_t got = 0;
  do {
    got = pread(descriptor, to, size, static_cast<off_t>(at));
  } while (got < 0 && errno == EINTR);
  return got == static_cast<ssize_t>(size);
}

// Of a descriptor that names a file without opening it; closes it.
bool IsRegular(int descriptor) {
  if (descriptor < 0) return false;
  struct stat status = {};
  const bool regular = fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  close(descriptor);
  return regular;
}

}  // namespace

namespace ipc {

std::optional<SharedBlock> Resolve(const Handle& handle) {
  const KeepErrno keep;
  char path[48];
  std::snprintf(path, sizeof(path), "/proc/%d/fd/%d", handle.process, handle.descriptor);
  // By now the number may be anything: opening a pipe waits, opening a device has effects.
  if (!IsRegular(open(path, O_PATH | O_CLOEXEC))) return std::nullopt;
  const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) return std::nullopt;
  TableHeader header;
  TableEntry entry;
  const bool read = ReadAt(descriptor, &header, sizeof(header), 0) &&
                    ReadAt(descriptor, &entry, sizeof(entry), EntryPlace(handle));
  close(descriptor);
  return read ? ReadEntry(handle, header, entry) : std::nullopt;
}

}  // namespace ipc

bool ExportTable::MakeTable() {
  int descriptor = static_cast<int>(syscall(SYS_memfd_create, "cuheap-ipc", kFileFlags));
  if (descriptor < 0) return false;
  if (const int moved = fcntl(descriptor, F_DUPFD_CLOEXEC, kLowestDescriptor); moved >= 0) {
    close(descriptor);
    descriptor = moved;
  }
  struct stat status = {};
  void* place = MAP_FAILED;
  if (ftruncate(descriptor, static_cast<off_t>(kTableBytes)) == 0 && fstat(descriptor, &status) == 0 &&
      fcntl(descriptor, kAddSeals, kSeals) == 0 && Allocate(descriptor, 0, sizeof(ipc::TableHeader))) {
    place = mmap(nullptr, kTableBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  }
  if (place == MAP_FAILED) {
    close(descriptor);
    return false;
  }
  madvise(place, kTableBytes, MADV_DONTFORK);
  descriptor_ = descriptor;
  device_ = status.st_dev;
  inode_ = status.st_ino;
  header_ = static_cast<ipc::TableHeader*>(place);
  entries_ = reinterpret_cast<ipc::TableEntry*>(header_ + 1);
  ipc::TableHeader header;
  header.entries = ipc::kTableEntries;
  FillRandom(&header.key, sizeof(header.key));
  *header_ = header;
  return true;
}

// A table that other processes can reach. A program that closes descriptors that it does not know has closed ours: then
// all that was exported is lost, and a new table begins.
bool ExportTable::Prepare() {
  if (header_ != nullptr) {
    struct stat status = {};
    if (fstat(descriptor_, &status) == 0 && status.st_dev == device_ && status.st_ino == inode_) return true;
    munmap(header_, kTableBytes);
    header_ = nullptr;
    published_.clear();
    free_.clear();
    used_ = 0;
  }
  return MakeTable();
}

bool ExportTable::Publish(const PoolBlock& block, const CUipcMemHandle& driver_handle, CUipcMemHandle* handle) {
  const KeepErrno keep;
  const std::lock_guard lock(mutex_);
  if (!Prepare()) return false;
  auto known = published_.find(block.address);
  if (known != published_.end() && known->second.incarnation != block.incarnation) {
    Clear(known->second);
    published_.erase(known);
    known = published_.end();
  }
  if (known == published_.end()) {
    if (free_.empty() && used_ == ipc::kTableEntries) return false;
    Published made{block.context, block.incarnation, used_, EntryKey()};
    if (free_.empty()) {
      const std::uint64_t at = sizeof(ipc::TableHeader) + std::uint64_t{used_} * sizeof(ipc::TableEntry);
      if (!Allocate(descriptor_, at, sizeof(ipc::TableEntry))) return false;
      ++used_;
    } else {
      made.index = free_.back();
      free_.pop_back();
    }
    ipc::TableEntry entry;
    entry.key = made.key;
    entry.offset = block.address - block.segment;
    entry.bytes = block.bytes;
    entry.segment_bytes = block.segment_bytes;
    entry.driver_handle = driver_handle;
    entry.check = ipc::CheckOf(entry);
    entries_[made.index] = entry;
    known = published_.emplace(block.address, made).first;
    any_.store(true, std::memory_order_release);
  }
  ipc::Handle made;
  made.process = getpid();
  made.descriptor = descriptor_;
  made.index = known->second.index;
  made.table = header_->key;
  made.entry = known->second.key;
  made.check = ipc::CheckOf(made);
  std::memcpy(handle, &made, sizeof(made));
  return true;
}

void ExportTable::Clear(const Published& published) {
  entries_[published.index] = {};
  free_.push_back(published.index);
}

void ExportTable::Forget(std::uint64_t address) {
  const std::lock_guard lock(mutex_);
  const auto found = published_.find(address);
  if (found == published_.end()) return;
  Clear(found->second);
  published_.erase(found);
}

void ExportTable::ContextDestroyed(ContextId context) {
  if (!any_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(mutex_);
  for (auto at = published_.begin(); at != published_.end();) {
    if (at->second.context == context) {
      Clear(at->second);
      at = published_.erase(at);
    } else {
      ++at;
    }
  }
}

}  // namespace cuheap
