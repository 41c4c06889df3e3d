// How exports call the frames of a stack, and themselves.
#ifndef CUHEAP_ANALYSIS_EXPORTS_FRAME_NAMES_H_
#define CUHEAP_ANALYSIS_EXPORTS_FRAME_NAMES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/exports/moment.h"
#include "analysis/snapshot.h"

namespace cuheap::analysis {

// The snapshot must outlive it. Indices are those of snapshot.frames and have been checked (snapshot_check.h).
class FrameNames {
 public:
  explicit FrameNames(const Snapshot& snapshot) : snapshot_(snapshot), labels_(snapshot.frames.size()) {}

  // The function; without a symbol "libtrain.so+0x1234", and "[unknown]" if not even the library is known. UTF-8.
  std::string Function(std::uint32_t frame) const;
  // The source file, empty if it is not known. UTF-8.
  std::string File(std::uint32_t frame) const;
  std::uint32_t Line(std::uint32_t frame) const { return snapshot_.frames[frame].line; }
  // "Step (train.cc:57)": one text that tells two lines of a function apart. Printable (printable.h). Kept.
  const std::string& Label(std::uint32_t frame);

 private:
  const Snapshot& snapshot_;
  std::vector<std::string> labels_;
};

// "cuheap 1.2.3": who wrote the file.
std::string ExporterName(const Snapshot& snapshot);
// "/opt/bin/train: GPU memory at the peak". The program is not known of snapshots that PyTorch made.
std::string TitleOf(const Snapshot& snapshot, const Moment& moment);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_EXPORTS_FRAME_NAMES_H_
