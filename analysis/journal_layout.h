// The header and the extents of a journal, checked: what remains can be read without looking at the file's size again.
#ifndef CUHEAP_ANALYSIS_JOURNAL_LAYOUT_H_
#define CUHEAP_ANALYSIS_JOURNAL_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "analysis/journal_bytes.h"
#include "interpose/journal/format.h"

namespace cuheap::analysis {

// What was lost, in words for a note: collected while reading.
class JournalDamage {
 public:
  void Add(const std::string& text);  // kept up to a limit, then counted
  const std::vector<std::string>& texts() const { return texts_; }
  std::uint64_t more() const { return more_; }

 private:
  std::vector<std::string> texts_;
  std::uint64_t more_ = 0;
};

// A copy of the header. The fields are the writer's claims: strings may lack their NUL.
class HeaderCopy {
 public:
  HeaderCopy() : bytes_(journal::kHeaderBytes / sizeof(std::max_align_t)) {}
  void* data() { return bytes_.data(); }
  const journal::FileHeader& get() const { return *reinterpret_cast<const journal::FileHeader*>(bytes_.data()); }

 private:
  std::vector<std::max_align_t> bytes_;
};

struct ExtentPlace {
  std::uint64_t offset = 0;  // in the file
  std::uint64_t bytes = 0;   // readable; cut if the file is shorter than the extent claims
  std::uint64_t claimed_bytes = 0;
};

struct JournalLayout {
  HeaderCopy header;
  // In order of publication. Only stacks keep their unreadable extents (bytes = 0), since ids count through them.
  std::vector<ExtentPlace> events, live, stacks, modules, threads, notes, python_code;
};

// Errors: InvalidArgument (no journal), FailedPrecondition (other version, header never completed).
absl::StatusOr<JournalLayout> ReadJournalLayout(const JournalBytes& bytes, const std::string& name,
                                                JournalDamage& damage);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_JOURNAL_LAYOUT_H_
