#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "analysis/file_error.h"
#include "analysis/text_file.h"

namespace cuheap::analysis {
namespace {

constexpr std::size_t kBufferBytes = 256u << 10;

class FileSink final : public TextSink {
 public:
  // temporary empty: `path` itself is written.
  FileSink(int descriptor, std::string path, std::string temporary)
      : descriptor_(descriptor), path_(std::move(path)), temporary_(std::move(temporary)) {
    buffer_.reserve(kBufferBytes);
  }
  FileSink(const FileSink&) = delete;
  FileSink& operator=(const FileSink&) = delete;
  ~FileSink() override {
    if (descriptor_ >= 0) close(descriptor_);
    if (!temporary_.empty()) unlink(temporary_.c_str());
  }

  void Write(std::string_view text) override {
    if (buffer_.size() + text.size() > kBufferBytes) Flush();
    if (text.size() > kBufferBytes) {
      WriteOut(text);
    } else {
      buffer_.append(text);
    }
  }

  absl::Status Finish() override {
    Flush();
    // Some file systems report a full disk only here.
    if (close(std::exchange(descriptor_, -1)) != 0 && error_ == 0) error_ = errno;
    if (error_ == 0 && !temporary_.empty()) {
      if (rename(temporary_.c_str(), path_.c_str()) == 0) {
        temporary_.clear();
      } else {
        error_ = errno;
      }
    }
    return error_ == 0 ? absl::OkStatus() : FileSystemError(error_, path_, "writing the file");
  }

 private:
  void Flush() {
    WriteOut(buffer_);
    buffer_.clear();
  }

  void WriteOut(std::string_view text) {
    while (!text.empty() && error_ == 0) {
      const ssize_t written = write(descriptor_, text.data(), text.size());
      if (written < 0) {
        if (errno != EINTR) error_ = errno;
        continue;
      }
      text.remove_prefix(static_cast<std::size_t>(written));
    }
  }

  int descriptor_;
  std::string path_, temporary_;
  std::string buffer_;
  int error_ = 0;
};

class ZstdSink final : public TextSink {
 public:
  explicit ZstdSink(std::unique_ptr<TextSink> compressed)
      : compressed_(std::move(compressed)), stream_(ZSTD_createCStream()), buffer_(ZSTD_CStreamOutSize()) {
    if (stream_ != nullptr) {
      ZSTD_CCtx_setParameter(stream_, ZSTD_c_compressionLevel, 3);
      ZSTD_CCtx_setParameter(stream_, ZSTD_c_checksumFlag, 1);
    }
    pending_.reserve(kBufferBytes);
  }
  ZstdSink(const ZstdSink&) = delete;
  ZstdSink& operator=(const ZstdSink&) = delete;
  ~ZstdSink() override { ZSTD_freeCStream(stream_); }

  void Write(std::string_view text) override {
    if (pending_.size() + text.size() > kBufferBytes) Compress(ZSTD_e_continue);
    pending_.append(text);
  }

  absl::Status Finish() override {
    Compress(ZSTD_e_end);
    if (!error_.empty()) return absl::InternalError("compressing failed: " + error_);
    return compressed_->Finish();
  }

 private:
  void Compress(ZSTD_EndDirective directive) {
    if (stream_ == nullptr) error_ = "no memory";
    if (!error_.empty()) return;
    ZSTD_inBuffer input{pending_.data(), pending_.size(), 0};
    std::size_t left = 0;
    do {
      ZSTD_outBuffer output{buffer_.data(), buffer_.size(), 0};
      left = ZSTD_compressStream2(stream_, &output, &input, directive);
      if (ZSTD_isError(left) != 0) {
        error_ = ZSTD_getErrorName(left);
        return;
      }
      compressed_->Write({buffer_.data(), output.pos});
    } while (directive == ZSTD_e_end ? left != 0 : input.pos < input.size);
    pending_.clear();
  }

  std::unique_ptr<TextSink> compressed_;
  ZSTD_CStream* stream_;
  std::vector<char> buffer_;
  std::string pending_;
  std::string error_;
};

class StringSink final : public TextSink {
 public:
  explicit StringSink(std::string& text) : text_(text) {}
  void Write(std::string_view text) override { text_.append(text); }
  absl::Status Finish() override { return absl::OkStatus(); }

 private:
  std::string& text_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TextSink>> CreateTextFile(const std::string& path) {
  struct stat facts;
  const bool exists = stat(path.c_str(), &facts) == 0;
  if (exists && S_ISDIR(facts.st_mode)) {
    return FileError(absl::StatusCode::kInvalidArgument, path, "", "is a directory", "name a file");
  }
  std::string temporary;
  int descriptor = -1;
  if (exists && !S_ISREG(facts.st_mode)) {
    descriptor = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    temporary = path + ".tmp-XXXXXX";
    descriptor = mkostemp(temporary.data(), O_CLOEXEC);  // mode 0600
  }
  if (descriptor < 0) return FileSystemError(errno, path, "creating the file");
  std::unique_ptr<TextSink> file = std::make_unique<FileSink>(descriptor, path, temporary);
  if (path.ends_with(".zst")) return std::make_unique<ZstdSink>(std::move(file));
  return file;
}

std::unique_ptr<TextSink> TextToString(std::string& text) { return std::make_unique<StringSink>(text); }

}  // namespace cuheap::analysis
