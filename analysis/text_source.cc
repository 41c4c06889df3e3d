#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "analysis/file_error.h"
#include "analysis/text_file.h"

namespace cuheap::analysis {
namespace {

constexpr unsigned char kZstdMagic[4] = {0x28, 0xB5, 0x2F, 0xFD};
// Snapshots shrink to a tenth or a fiftieth. A file that grows a thousandfold is made to exhaust memory.
constexpr std::uint64_t kMaxExpansion = 1000;
constexpr std::uint64_t kFreeExpansion = 64u << 20;
// zstd's own writer puts no empty blocks one behind the other; they are made to keep a reader busy.
constexpr std::uint64_t kMostForNothing = 1u << 20;

class FileSource final : public TextSource {
 public:
  FileSource(int descriptor, ReadProgress progress, std::uint64_t file_bytes)
      : descriptor_(descriptor), progress_(std::move(progress)), file_bytes_(file_bytes) {}
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;
  ~FileSource() override { close(descriptor_); }

  std::size_t Read(char* out, std::size_t bytes) override {
    const std::size_t ahead = std::min(bytes, ahead_.size());
    if (ahead > 0) {
      std::memcpy(out, ahead_.data(), ahead);
      ahead_.erase(0, ahead);
      return ahead;
    }
    ssize_t got;
    do {
      got = read(descriptor_, out, bytes);
    } while (got < 0 && errno == EINTR);
    if (got < 0) error_ = std::string("reading failed: ") + std::strerror(errno);
    if (got <= 0) return 0;
    read_bytes_ += static_cast<std::uint64_t>(got);
    if (progress_) progress_(read_bytes_, file_bytes_);
    return static_cast<std::size_t>(got);
  }
  const std::string& error() const override { return error_; }

  // The file's first bytes, which Read() will give again.
  std::string_view Begin() {
    char bytes[sizeof(kZstdMagic)];
    while (ahead_.size() < sizeof(bytes)) {
      const ssize_t got = read(descriptor_, bytes, sizeof(bytes) - ahead_.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) error_ = std::string("reading failed: ") + std::strerror(errno);
      if (got <= 0) break;
      ahead_.append(bytes, static_cast<std::size_t>(got));
    }
    return ahead_;
  }

 private:
  int descriptor_;
  ReadProgress progress_;
  std::uint64_t read_bytes_ = 0, file_bytes_;
  std::string ahead_;
  std::string error_;
};

class ZstdSource final : public TextSource {
 public:
  explicit ZstdSource(std::unique_ptr<TextSource> compressed)
      : compressed_(std::move(compressed)), stream_(ZSTD_createDStream()), buffer_(ZSTD_DStreamInSize()) {
    // 128 MiB: the largest window that zstd's own command accepts without being asked.
    if (stream_ != nullptr) ZSTD_DCtx_setParameter(stream_, ZSTD_d_windowLogMax, 27);
  }
  ZstdSource(const ZstdSource&) = delete;
  ZstdSource& operator=(const ZstdSource&) = delete;
  ~ZstdSource() override { ZSTD_freeDStream(stream_); }

  std::size_t Read(char* out, std::size_t bytes) override {
    if (stream_ == nullptr || !error_.empty()) return 0;
    ZSTD_outBuffer output{out, bytes, 0};
    while (output.pos == 0) {
      if (input_.pos == input_.size && !drained_) {
        input_ = {buffer_.data(), compressed_->Read(buffer_.data(), buffer_.size()), 0};
        drained_ = input_.size == 0;
        compressed_bytes_ += input_.size;
        for_nothing_ += input_.size;
        if (for_nothing_ > kMostForNothing + buffer_.size()) {
          error_ = "the compressed data is empty for more than " + std::to_string(kMostForNothing) + " bytes";
          return 0;
        }
      }
      const bool had_input = input_.pos < input_.size;
      const std::size_t result = ZSTD_decompressStream(stream_, &output, &input_);
      if (ZSTD_isError(result) != 0) {
        error_ = std::string("the compressed data is damaged: ") + ZSTD_getErrorName(result);
        return 0;
      }
      if (output.pos > 0) between_frames_ = false, for_nothing_ = 0;
      if (result == 0) between_frames_ = true;
      if (output.pos == 0 && drained_ && !had_input) {
        if (!compressed_->error().empty()) error_ = compressed_->error();
        if (error_.empty() && !between_frames_) error_ = "the compressed data is cut off";
        return 0;
      }
    }
    text_bytes_ += output.pos;
    if (text_bytes_ > kFreeExpansion && text_bytes_ / kMaxExpansion > compressed_bytes_) {
      error_ = "the compressed data grows more than a thousandfold, as no snapshot does";
      return 0;
    }
    return output.pos;
  }
  const std::string& error() const override { return error_; }

 private:
  std::unique_ptr<TextSource> compressed_;
  ZSTD_DStream* stream_;
  std::vector<char> buffer_;
  ZSTD_inBuffer input_{nullptr, 0, 0};
  bool drained_ = false;
  bool between_frames_ = false;
  std::uint64_t compressed_bytes_ = 0, text_bytes_ = 0;
  std::uint64_t for_nothing_ = 0;  // compressed bytes since the last that gave text
  std::string error_;
};

class MemorySource final : public TextSource {
 public:
  explicit MemorySource(std::string_view text) : text_(text) {}
  std::size_t Read(char* out, std::size_t bytes) override {
    const std::size_t here = std::min(bytes, text_.size());
    std::memcpy(out, text_.data(), here);
    text_.remove_prefix(here);
    return here;
  }
  const std::string& error() const override { return error_; }

 private:
  std::string_view text_;
  std::string error_;
};

}  // namespace

namespace {

// Opens a named pipe without waiting for a writer, then waits for data; a negative descriptor and errno if there is an
// error, ETIMEDOUT if none came.
int OpenNamedPipe(const std::string& path, std::chrono::milliseconds patience) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return descriptor;
  pollfd waiting{descriptor, POLLIN, 0};
  int ready;
  do {
    ready = poll(&waiting, 1, static_cast<int>(patience.count()));
  } while (ready < 0 && errno == EINTR);
  const int flags = fcntl(descriptor, F_GETFL);
  if (ready > 0 && flags >= 0 && fcntl(descriptor, F_SETFL, flags & ~O_NONBLOCK) == 0) return descriptor;
  const int why = ready == 0 ? ETIMEDOUT : errno;
  close(descriptor);
  errno = why;
  return -1;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TextSource>> OpenTextFile(const std::string& path, std::chrono::milliseconds patience,
                                                         ReadProgress progress) {
  struct stat named;
  const bool named_pipe = lstat(path.c_str(), &named) == 0 && S_ISFIFO(named.st_mode);
  const int descriptor = named_pipe ? OpenNamedPipe(path, patience) : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0 && named_pipe && errno == ETIMEDOUT) {
    return FileError(absl::StatusCode::kDeadlineExceeded, path, "",
                     "is a pipe, and nobody has written to it for " + std::to_string(patience.count()) + " ms",
                     "start its writer first, or name a file");
  }
  if (descriptor < 0) return FileSystemError(errno, path, "opening the file");
  struct stat facts{};
  const bool known = fstat(descriptor, &facts) == 0;
  const auto file_bytes = known && S_ISREG(facts.st_mode) ? static_cast<std::uint64_t>(facts.st_size) : 0;
  auto file = std::make_unique<FileSource>(descriptor, std::move(progress), file_bytes);
  if (known && S_ISDIR(facts.st_mode)) {
    return FileError(absl::StatusCode::kInvalidArgument, path, "", "is a directory", "name a file");
  }
  const std::string_view begin = file->Begin();
  if (begin.size() == sizeof(kZstdMagic) && std::memcmp(begin.data(), kZstdMagic, sizeof(kZstdMagic)) == 0) {
    return std::make_unique<ZstdSource>(std::move(file));
  }
  return file;
}

std::unique_ptr<TextSource> TextInMemory(std::string_view text) { return std::make_unique<MemorySource>(text); }

}  // namespace cuheap::analysis
