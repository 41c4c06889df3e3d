// The files that are mapped into this process with their ELF header, as /proc/self/maps tells: of every namespace of
// the loader, and without asking it.
#ifndef CUHEAP_INTERPOSE_UNSEEN_MAPPED_FILES_H_
#define CUHEAP_INTERPOSE_UNSEEN_MAPPED_FILES_H_

#include <cstddef>
#include <cstdint>

namespace cuheap::unseen {

struct MappedFile {
  std::uint64_t begin = 0;  // where its first byte is
  std::uint64_t end = 0;    // of its last mapping that follows; what has no file behind it (bss) left out
  const char* path = "";    // ends with NUL, lives as long as the list
};

// The last part of a path.
const char* FileName(const char* path);

class MappedFiles {
 public:
  static constexpr std::size_t kMaxFiles = 2048;
  static constexpr std::size_t kPathBytes = std::size_t{1} << 18;

  // All zero; large: not on a stack. Its memory comes from whoever makes it.
  MappedFiles() = default;

  // Reads the list anew. False if /proc is not there. What has no room is left out and counted.
  bool Read();
  // The same for a text that looks like /proc/self/maps, line by line without the newline; for Read and tests.
  void AddLine(const char* line);
  void Clear();

  std::size_t size() const { return size_; }
  const MappedFile& operator[](std::size_t i) const { return files_[i]; }
  std::size_t left_out() const { return left_out_; }
  // Mappings of device files that CUDA alone uses.
  std::size_t device_mappings() const { return device_mappings_; }

 private:
  const char* KeepPath(const char* path);

  MappedFile files_[kMaxFiles];
  char paths_[kPathBytes];
  std::size_t size_ = 0;
  std::size_t path_bytes_ = 0;
  std::size_t left_out_ = 0;
  std::size_t device_mappings_ = 0;
  bool open_ = false;  // the mapping before belonged to files_[size_ - 1]
};

// Open descriptors of device files that CUDA alone uses (/dev/nvidia-uvm, /dev/dxg); 0 without /proc.
std::size_t OpenDeviceFiles();

}  // namespace cuheap::unseen

#endif  // CUHEAP_INTERPOSE_UNSEEN_MAPPED_FILES_H_
