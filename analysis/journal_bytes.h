// Where a journal's bytes come from: a file that another process may be writing, or memory.
//
// Reads copy through the kernel instead of mapping: a file that shrinks meanwhile gives an error here, where a mapping
// would give SIGBUS.
#ifndef CUHEAP_ANALYSIS_JOURNAL_BYTES_H_
#define CUHEAP_ANALYSIS_JOURNAL_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace cuheap::analysis {

class JournalBytes {
 public:
  virtual ~JournalBytes() = default;
  // Bytes there are now.
  virtual std::uint64_t size() const = 0;
  // Copies [offset, offset + bytes); false if not all of it could be read.
  virtual bool Read(std::uint64_t offset, void* out, std::size_t bytes) const = 0;
  // Device and inode of the file, 0 for memory.
  virtual std::uint64_t device() const = 0;
  virtual std::uint64_t inode() const = 0;
};

absl::StatusOr<std::unique_ptr<JournalBytes>> OpenJournalFile(const std::string& path);
std::unique_ptr<JournalBytes> JournalInMemory(std::span<const std::byte> bytes);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_JOURNAL_BYTES_H_
