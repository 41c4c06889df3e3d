#include "analysis/exports/gzip_sink.h"

#include <zlib.h>

#include <array>
#include <string>
#include <string_view>

namespace cuheap::analysis {
namespace {

constexpr int kGzipWindow = 15 + 16;  // deflateInit2: the largest window; 16 asks for gzip's header and trailer
constexpr int kMemoryLevel = 8;       // zlib's default
constexpr std::size_t kPendingBytes = 64u << 10;

class GzipSink final : public TextSink {
 public:
  explicit GzipSink(TextSink& compressed) : compressed_(compressed) {
    ready_ = deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow, kMemoryLevel, Z_DEFAULT_STRATEGY) ==
             Z_OK;
    pending_.reserve(kPendingBytes);
  }
  GzipSink(const GzipSink&) = delete;
  GzipSink& operator=(const GzipSink&) = delete;
  ~GzipSink() override {
    if (ready_) deflateEnd(&stream_);
  }

  void Write(std::string_view text) override {
    pending_.append(text);
    if (pending_.size() >= kPendingBytes) Compress(Z_NO_FLUSH);
  }

  absl::Status Finish() override {
    Compress(Z_FINISH);
    return failed_ ? absl::ResourceExhaustedError("compressing failed: no memory") : absl::OkStatus();
  }

 private:
  void Compress(int flush) {
    failed_ = failed_ || !ready_;
    stream_.next_in = reinterpret_cast<Bytef*>(pending_.data());
    stream_.avail_in = static_cast<uInt>(pending_.size());
    std::array<char, 16u << 10> output;
    do {
      if (failed_) break;
      stream_.next_out = reinterpret_cast<Bytef*>(output.data());
      stream_.avail_out = static_cast<uInt>(output.size());
      failed_ = deflate(&stream_, flush) == Z_STREAM_ERROR;
      compressed_.Write({output.data(), output.size() - stream_.avail_out});
    } while (stream_.avail_out == 0);
    pending_.clear();
  }

  TextSink& compressed_;
  z_stream stream_{};
  std::string pending_;
  bool ready_ = false, failed_ = false;
};

}  // namespace

std::unique_ptr<TextSink> Gzip(TextSink& compressed) { return std::make_unique<GzipSink>(compressed); }

}  // namespace cuheap::analysis
