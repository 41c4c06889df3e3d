#include "tools/simcuda/driver/shared_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

namespace simcuda {
namespace {

constexpr size_t kSmallPage = 4096;
constexpr size_t kFactsBytes = (sizeof(SharedFacts) + kSmallPage - 1) / kSmallPage * kSmallPage;
// Our descriptors keep away from the numbers that programs take for granted (0 to 2, the next free one).
constexpr int kLowestDescriptor = 100;

int MoveUp(int descriptor) {
  if (descriptor < 0) return -1;
  const int moved = fcntl(descriptor, F_DUPFD_CLOEXEC, kLowestDescriptor);
  if (moved < 0) return descriptor;
  close(descriptor);
  return moved;
}

// Raw, as everywhere where device memory is mapped: sanitizers need not follow it.
void* MapRaw(uint64_t address, size_t bytes, int protection, int flags, int descriptor, uint64_t offset) {
  const long result = syscall(SYS_mmap, address, bytes, protection, flags, descriptor, offset);
  return result == -1 ? nullptr : reinterpret_cast<void*>(result);
}

SharedFacts* MapFacts(int descriptor, uint64_t offset) {
  return static_cast<SharedFacts*>(MapRaw(0, kFactsBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, offset));
}

bool WriteAll(int descriptor, uint64_t address, size_t bytes, uint64_t offset) {
  while (bytes > 0) {
    const ssize_t written =
        pwrite(descriptor, reinterpret_cast<const void*>(address), bytes, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    address += static_cast<size_t>(written);
    offset += static_cast<uint64_t>(written);
    bytes -= static_cast<size_t>(written);
  }
  return true;
}

}  // namespace

SharedKey RandomKey() {
  SharedKey key;
  if (getrandom(&key, sizeof key, GRND_NONBLOCK) == static_cast<ssize_t>(sizeof key)) return key;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  static std::atomic<uint64_t> count{0};
  key.words[0] = static_cast<uint64_t>(now.tv_sec) * 1000000007u + static_cast<uint64_t>(now.tv_nsec);
  key.words[1] = static_cast<uint64_t>(getpid()) << 32 | ++count;
  return key;
}

std::shared_ptr<SharedFile> SharedFile::Create(SharedKind kind, int device, size_t bytes) {
  const int descriptor = MoveUp(static_cast<int>(syscall(SYS_memfd_create, "simcuda", MFD_CLOEXEC)));
  if (descriptor < 0) return nullptr;
  SharedFacts* facts = nullptr;
  if (ftruncate(descriptor, static_cast<off_t>(bytes + kFactsBytes)) == 0) facts = MapFacts(descriptor, bytes);
  if (facts == nullptr) {
    close(descriptor);
    return nullptr;
  }
  facts->magic = SharedFacts::kMagic;
  facts->kind = kind;
  facts->device = device;
  facts->key = RandomKey();
  facts->bytes = bytes;
  return std::shared_ptr<SharedFile>(new SharedFile(descriptor, facts));
}

std::shared_ptr<SharedFile> SharedFile::Adopt(int descriptor, SharedKind kind, const SharedKey* key) {
  if (descriptor < 0) return nullptr;
  struct stat status{};
  SharedFacts* facts = nullptr;
  // Not writable, too short, no file at all: not ours.
  if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) &&
      static_cast<uint64_t>(status.st_size) > kFactsBytes && status.st_size % kSmallPage == 0) {
    facts = MapFacts(descriptor, static_cast<uint64_t>(status.st_size) - kFactsBytes);
  }
  if (facts == nullptr) {
    close(descriptor);
    return nullptr;
  }
  const bool ours = facts->magic == SharedFacts::kMagic && facts->kind == kind &&
                    facts->bytes == static_cast<uint64_t>(status.st_size) - kFactsBytes &&
                    (key == nullptr || facts->key == *key);
  if (ours) return std::shared_ptr<SharedFile>(new SharedFile(descriptor, facts));
  syscall(SYS_munmap, facts, kFactsBytes);
  close(descriptor);
  return nullptr;
}

std::shared_ptr<SharedFile> SharedFile::FromDescriptor(int descriptor, SharedKind kind) {
  return Adopt(fcntl(descriptor, F_DUPFD_CLOEXEC, kLowestDescriptor), kind, nullptr);
}

std::shared_ptr<SharedFile> SharedFile::FromProcess(pid_t process, int descriptor, const SharedKey& key,
                                                    SharedKind kind) {
  if (process <= 0 || descriptor < 0) return nullptr;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", static_cast<int>(process), descriptor);
  // The number may mean anything by now, and opening a pipe or a terminal can wait or have effects.
  struct stat status{};
  if (stat(path, &status) != 0 || !S_ISREG(status.st_mode)) return nullptr;
  return Adopt(MoveUp(open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)), kind, &key);
}

SharedFile::~SharedFile() {
  syscall(SYS_munmap, facts_, kFactsBytes);
  close(descriptor_);
}

bool SharedFile::MapAt(uint64_t address, size_t bytes, uint64_t offset, bool accessible) const {
  const int protection = accessible ? PROT_READ | PROT_WRITE : PROT_NONE;
  if (MapRaw(address, bytes, protection, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, descriptor_, offset) == nullptr) {
    return false;
  }
  syscall(SYS_madvise, address, bytes, MADV_DONTDUMP);
  return true;
}

void* SharedFile::Map(size_t bytes, uint64_t offset) const {
  return MapRaw(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor_, offset);
}

int SharedFile::Duplicate() const { return fcntl(descriptor_, F_DUPFD_CLOEXEC, 0); }

bool SharedFile::WriteFrom(uint64_t address, size_t bytes) const {
  // /proc/self/pagemap, a word for each page: bit 63 present, bit 62 swapped out. A page that is neither was never
  // touched. Without the file all pages are read.
  constexpr uint64_t kTouched = uint64_t{3} << 62;
  const auto worth_writing = [&](uint64_t word, uint64_t page) {
    const auto* at = reinterpret_cast<const char*>(page);
    return (word & kTouched) != 0 && (at[0] != 0 || std::memcmp(at, at + 1, kSmallPage - 1) != 0);
  };
  constexpr size_t kAtOnce = 4096;  // pages
  const int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  std::vector<uint64_t> words(kAtOnce);
  bool written = true;
  const size_t pages = bytes / kSmallPage;
  for (size_t first = 0; first < pages && written; first += kAtOnce) {
    const size_t count = std::min(kAtOnce, pages - first);
    const uint64_t at = address + first * kSmallPage;
    const auto wanted = static_cast<ssize_t>(count * sizeof(uint64_t));
    if (pagemap < 0 || pread(pagemap, words.data(), static_cast<size_t>(wanted),
                             static_cast<off_t>(at / kSmallPage * sizeof(uint64_t))) != wanted) {
      std::fill(words.begin(), words.end(), kTouched);
    }
    for (size_t i = 0; i < count && written;) {
      size_t run = i;
      while (run < count && worth_writing(words[run], at + run * kSmallPage)) ++run;
      if (run > i) {
        written = WriteAll(descriptor_, at + i * kSmallPage, (run - i) * kSmallPage, (first + i) * kSmallPage);
      }
      i = run + 1;
    }
  }
  if (pagemap >= 0) close(pagemap);
  return written;
}

}  // namespace simcuda
