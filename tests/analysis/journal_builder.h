// Makes journals by hand: the tests of the reader say what every byte is, which the recorder would not let them.
#ifndef CUHEAP_TESTS_ANALYSIS_JOURNAL_BUILDER_H_
#define CUHEAP_TESTS_ANALYSIS_JOURNAL_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "interpose/journal/format.h"

namespace cuheap::analysis {

// The values of an event without its atomic.
struct EventValues {
  journal::EventType type = journal::EventType::kAllocate;
  std::uint64_t time_ns = 0, address = 0, bytes = 0, id = 0, stream = 0;
  std::uint32_t stack = 0, thread = 0;
  journal::AllocationKind kind = journal::AllocationKind::kDevice;
  std::uint16_t device = 0, flags = 0, result = 0;
};

class JournalBuilder {
 public:
  // A header that is complete, with no extents.
  JournalBuilder();

  journal::FileHeader& header() { return *At<journal::FileHeader>(0); }

  // Adds an extent of `bytes` bytes of zeros (rounded up to its alignment); its offset.
  std::uint64_t AddExtent(journal::ExtentKind kind, std::uint64_t bytes);

  // An extent of one chain with these events, committed with sequence numbers from `first_sequence` on.
  std::uint64_t AddEvents(std::uint32_t chain, std::uint64_t first_sequence, const std::vector<EventValues>& events);

  // Adds a stack to the sequence of stack words; its id.
  std::uint32_t AddStack(const std::vector<std::uint64_t>& words, std::uint16_t flags = 0);

  template <typename Record>
  Record* At(std::uint64_t offset) {
    return reinterpret_cast<Record*>(reinterpret_cast<std::byte*>(words_.data()) + offset);
  }
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(words_)); }
  std::span<std::byte> mutable_bytes() { return std::as_writable_bytes(std::span(words_)); }
  void Write(const std::string& path) const;

 private:
  std::vector<std::uint64_t> words_;  // moves when an extent is added: offsets stay, pointers do not
  std::uint64_t stack_extent_ = 0, stack_words_used_ = 0;
};

// A journal with two of everything, every field with a value of its own: the golden input.
JournalBuilder DistinctJournal();

}  // namespace cuheap::analysis

#endif  // CUHEAP_TESTS_ANALYSIS_JOURNAL_BUILDER_H_
