#include "analysis/journal_bytes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "analysis/file_error.h"

namespace cuheap::analysis {
namespace {

class FileBytes final : public JournalBytes {
 public:
  FileBytes(int descriptor, const struct stat& facts) : descriptor_(descriptor), facts_(facts) {}
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;
  ~FileBytes() override { close(descriptor_); }

  std::uint64_t size() const override {
    struct stat now;
    return fstat(descriptor_, &now) == 0 && now.st_size > 0 ? static_cast<std::uint64_t>(now.st_size) : 0;
  }

  bool Read(std::uint64_t offset, void* out, std::size_t bytes) const override {
    auto* to = static_cast<char*>(out);
    while (bytes > 0) {
      const ssize_t got = pread(descriptor_, to, bytes, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      to += got;
      offset += static_cast<std::uint64_t>(got);
      bytes -= static_cast<std::size_t>(got);
    }
    return true;
  }

  std::uint64_t device() const override { return facts_.st_dev; }
  std::uint64_t inode() const override { return facts_.st_ino; }

 private:
  int descriptor_;
  struct stat facts_;
};

class MemoryBytes final : public JournalBytes {
 public:
  explicit MemoryBytes(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::uint64_t size() const override { return bytes_.size(); }
  bool Read(std::uint64_t offset, void* out, std::size_t bytes) const override {
    if (offset > bytes_.size() || bytes > bytes_.size() - offset) return false;
    if (bytes > 0) std::memcpy(out, bytes_.data() + offset, bytes);
    return true;
  }
  std::uint64_t device() const override { return 0; }
  std::uint64_t inode() const override { return 0; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<JournalBytes>> OpenJournalFile(const std::string& path) {
  // Not blocking: a pipe with the name of a journal must not hang the reader.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return FileSystemError(errno, path, "opening the journal");
  struct stat facts;
  if (fstat(descriptor, &facts) != 0) {
    const int error = errno;
    close(descriptor);
    return FileSystemError(error, path, "reading the journal");
  }
  if (!S_ISREG(facts.st_mode)) {
    close(descriptor);
    return FileError(absl::StatusCode::kInvalidArgument, path, "",
                     S_ISDIR(facts.st_mode) ? "is a directory, not a journal" : "is no regular file, so no journal",
                     "name a file that ends in .journal");
  }
  return std::make_unique<FileBytes>(descriptor, facts);
}

std::unique_ptr<JournalBytes> JournalInMemory(std::span<const std::byte> bytes) {
  return std::make_unique<MemoryBytes>(bytes);
}

}  // namespace cuheap::analysis
