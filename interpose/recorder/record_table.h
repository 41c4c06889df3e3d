// An append-only table of fixed-size records with a commit word (threads, modules, notes), over extents of the journal.
#ifndef CUHEAP_INTERPOSE_RECORDER_RECORD_TABLE_H_
#define CUHEAP_INTERPOSE_RECORDER_RECORD_TABLE_H_

#include <cstdint>
#include <mutex>

#include "interpose/journal/format.h"
#include "interpose/recorder/journal_file.h"

namespace cuheap::recorder {

// Record has a member std::atomic<std::uint32_t> commit, which gets the record's index, from 1.
template <typename Record, journal::ExtentKind kKind, std::uint64_t kFirstExtentBytes = 64 * 1024>
class RecordTable {
 public:
  constexpr RecordTable() = default;
  // max_records: where the table ends, so that a program cannot fill the disk with what is only described here.
  void Init(JournalFile* file, std::uint32_t max_records) {
    file_ = file;
    max_records_ = max_records;
  }

  struct Added {
    std::uint32_t index = 0;  // 0: no room
    Record* record = nullptr;
  };
  // fill(Record&) writes all but `commit`; the record is zero before. Threads: any.
  template <typename Fill>
  Added Add(Fill fill) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (count_ == max_records_) return {};
    if (next_ == end_) {
      const auto added = file_->AddExtent(kKind, 0, kFirstExtentBytes, kFirstExtentBytes);
      if (added.memory == nullptr) return {};
      next_ = static_cast<Record*>(added.memory);
      end_ = next_ + added.bytes / sizeof(Record);
    }
    Record* record = next_++;
    fill(*record);
    record->commit.store(++count_, std::memory_order_release);
    return {count_, record};
  }

 private:
  JournalFile* file_ = nullptr;
  std::uint32_t max_records_ = 0;
  std::mutex mutex_;
  std::uint32_t count_ = 0;
  Record* next_ = nullptr;
  Record* end_ = nullptr;
};

}  // namespace cuheap::recorder

#endif  // CUHEAP_INTERPOSE_RECORDER_RECORD_TABLE_H_
