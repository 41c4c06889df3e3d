// What a command that takes long shows while it works: one line on stderr that is written over and goes away.
#ifndef CUHEAP_TOOLS_CUHEAP_PROGRESS_H_
#define CUHEAP_TOOLS_CUHEAP_PROGRESS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cuheap::tools {

// Shows nothing unless stderr is a terminal, nor before half a second has gone by. The line is gone when Progress is.
class Progress {
 public:
  // path: of what Read() tells.
  explicit Progress(const std::string& path = {});
  ~Progress() { Clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // For analysis/text_file.h: `file_bytes` 0: not known.
  void Read(std::uint64_t read_bytes, std::uint64_t file_bytes);
  // Of many snapshots, how many were read.
  void Files(std::size_t done, std::size_t total);
  // What comes after reading; shown only if reading took long enough to be shown.
  void Phase(std::string_view what);
  // Before anything else is printed.
  void Clear();

 private:
  using Clock = std::chrono::steady_clock;
  bool Due();
  void Show(std::string text);

  std::string path_;
  bool terminal_;
  bool shown_ = false;
  Clock::time_point next_;
};

}  // namespace cuheap::tools

#endif  // CUHEAP_TOOLS_CUHEAP_PROGRESS_H_
