#include "analysis/exports/frame_names.h"

#include <array>
#include <cstdio>
#include <string_view>

#include "analysis/printable.h"

namespace cuheap::analysis {
namespace {

// After the last slash of either kind: snapshots of PyTorch come from Windows, too.
std::string_view BaseName(std::string_view path) {
  const std::size_t slash = path.find_last_of("/\\");
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

}  // namespace

std::string FrameNames::Function(std::uint32_t index) const {
  const Frame& frame = snapshot_.frames[index];
  if (frame.function != 0) return ValidUtf8(snapshot_.strings[frame.function]);
  if (frame.module == 0) return "[unknown]";
  std::array<char, 24> offset;
  std::snprintf(offset.data(), offset.size(), "+0x%llx", static_cast<unsigned long long>(frame.offset));
  return ValidUtf8(BaseName(snapshot_.modules[frame.module - 1].path)) + offset.data();
}

std::string FrameNames::File(std::uint32_t index) const {
  return ValidUtf8(snapshot_.strings[snapshot_.frames[index].file]);
}

const std::string& FrameNames::Label(std::uint32_t index) {
  std::string& label = labels_[index];
  if (!label.empty()) return label;
  const Frame& frame = snapshot_.frames[index];
  label = Printable(Function(index));
  if (frame.file != 0) {
    label.append(" (").append(Printable(BaseName(snapshot_.strings[frame.file])));
    if (frame.line != 0) label.append(":").append(std::to_string(frame.line));
    label.append(")");
  }
  return label;
}

std::string ExporterName(const Snapshot& snapshot) {
  return snapshot.cuheap_version.empty() ? "cuheap" : "cuheap " + snapshot.cuheap_version;
}

std::string TitleOf(const Snapshot& snapshot, const Moment& moment) {
  const std::string& program = snapshot.process.executable;
  return (program.empty() ? "" : program + ": ") + "GPU memory " + Describe(moment);
}

}  // namespace cuheap::analysis
