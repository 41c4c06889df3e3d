// Text files that may be compressed with zstd, read and written piece by piece.
#ifndef CUHEAP_ANALYSIS_TEXT_FILE_H_
#define CUHEAP_ANALYSIS_TEXT_FILE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "analysis/json_reader.h"

namespace cuheap::analysis {

// Told after each piece: bytes of the file that were read (compressed ones, if it is compressed), and all that it has;
// 0: not known (a pipe).
using ReadProgress = std::function<void(std::uint64_t read_bytes, std::uint64_t file_bytes)>;

// Opens a file for reading; whether it is compressed is seen from its first bytes, not from its name. A named pipe that
// gives nothing within `patience` is an error: nobody may ever write to it. Pipes without a name (standard input,
// process substitution) are waited for, since somebody has opened their other end.
absl::StatusOr<std::unique_ptr<TextSource>> OpenTextFile(const std::string& path,
                                                         std::chrono::milliseconds patience = std::chrono::seconds(10),
                                                         ReadProgress progress = {});
std::unique_ptr<TextSource> TextInMemory(std::string_view text);

// Where text goes. Errors are sticky and come out of Finish().
class TextSink {
 public:
  virtual ~TextSink() = default;
  virtual void Write(std::string_view text) = 0;
  // Makes the file complete and visible under its name.
  virtual absl::Status Finish() = 0;
};

// A file that appears under its name only when it is complete (temporary name in the same folder, then rename), mode
// 0600, compressed if the name ends in ".zst". Without Finish(), or after an error, nothing is left behind. A path that
// exists and is no regular file is written in place.
//
// It is not flushed to the disk: what a crash of the machine loses is one snapshot, and waiting for a disk would cost a
// program that has just ended up to seconds.
absl::StatusOr<std::unique_ptr<TextSink>> CreateTextFile(const std::string& path);
std::unique_ptr<TextSink> TextToString(std::string& text);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_TEXT_FILE_H_
