#include "analysis/source_lines.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace cuheap::analysis {
namespace {

constexpr off_t kLargestFile = off_t{8} << 20;

// Empty if there is nothing to read.
std::string Contents(const std::string& path, std::int64_t& written_ns) {
  // Not blocking: the path may name a FIFO by now.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) return {};
  std::string text;
  struct stat facts;
  if (fstat(descriptor, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_size <= kLargestFile) {
    written_ns = std::int64_t{facts.st_mtim.tv_sec} * 1'000'000'000 + facts.st_mtim.tv_nsec;
    text.resize(static_cast<std::size_t>(facts.st_size));
    std::size_t read_bytes = 0;
    while (read_bytes < text.size()) {
      const ssize_t now = read(descriptor, text.data() + read_bytes, text.size() - read_bytes);
      if (now <= 0) break;
      read_bytes += static_cast<std::size_t>(now);
    }
    text.resize(read_bytes);
  }
  close(descriptor);
  return text;
}

}  // namespace

const SourceFile& SourceLines::Read(const std::string& file) {
  const auto [entry, added] = files_.try_emplace(file);
  SourceFile& source = entry->second;
  if (!added || file.empty() || file.front() == '<') return source;
  if (file.front() != '/' && working_directory_.empty()) return source;
  std::int64_t written_ns = 0;
  std::string text = Contents(file.front() == '/' ? file : working_directory_ + "/" + file, written_ns);
  source.changed = start_realtime_ns_ != 0 && written_ns > start_realtime_ns_;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    const std::size_t length = end - begin - (end > begin && text[end - 1] == '\r' ? 1 : 0);
    source.lines.push_back(text.substr(begin, length));
    begin = end + 1;
  }
  return source;
}

std::string_view SourceLines::Line(const std::string& file, std::uint32_t number) {
  const SourceFile& source = Read(file);
  if (number == 0 || number > source.lines.size()) return {};
  std::string_view line = source.lines[number - 1];
  constexpr std::string_view kSpace = " \t\f\v";
  line.remove_prefix(std::min(line.find_first_not_of(kSpace), line.size()));
  const std::size_t last = line.find_last_not_of(kSpace);
  return line.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

}  // namespace cuheap::analysis
