#include "analysis/journal_layout.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>

#include "analysis/file_error.h"

namespace cuheap::analysis {
namespace {

using journal::Extent;
using journal::ExtentKind;
using journal::FileHeader;

// More than any journal can be (its caps are thousands of times smaller): a larger file is something else, and scanning
// it would take hours.
constexpr std::uint64_t kMaxJournalBytes = std::uint64_t{1} << 40;
constexpr std::size_t kMaxDamageTexts = 20;
constexpr const char* kNameAJournal = "name a .journal file that cuheap wrote";

std::size_t RecordBytes(ExtentKind kind) {
  switch (kind) {
    case ExtentKind::kEvents:
      return sizeof(journal::Event);
    case ExtentKind::kLive:
      return sizeof(journal::LiveSlot);
    case ExtentKind::kStacks:
      return sizeof(std::uint64_t);
    case ExtentKind::kModules:
      return sizeof(journal::ModuleRecord);
    case ExtentKind::kThreads:
      return sizeof(journal::ThreadRecord);
    case ExtentKind::kNotes:
      return sizeof(journal::NoteRecord);
    case ExtentKind::kPythonCode:
      return sizeof(std::uint64_t);
    case ExtentKind::kNone:
      break;
  }
  return 0;
}

std::vector<ExtentPlace>* TableOf(JournalLayout& layout, ExtentKind kind) {
  switch (kind) {
    case ExtentKind::kEvents:
      return &layout.events;
    case ExtentKind::kLive:
      return &layout.live;
    case ExtentKind::kStacks:
      return &layout.stacks;
    case ExtentKind::kModules:
      return &layout.modules;
    case ExtentKind::kThreads:
      return &layout.threads;
    case ExtentKind::kNotes:
      return &layout.notes;
    case ExtentKind::kPythonCode:
      return &layout.python_code;
    case ExtentKind::kNone:
      break;
  }
  return nullptr;
}

// The parts of the file that extents have taken. Extents that shared bytes would be read twice, and a damaged directory
// of thousands of them would be read for ever.
class TakenRanges {
 public:
  // How many bytes from `offset` on are free, at most `bytes`.
  std::uint64_t FreeAt(std::uint64_t offset, std::uint64_t bytes) const {
    const auto next = ranges_.upper_bound(offset);
    if (next != ranges_.begin() && std::prev(next)->second > offset) return 0;
    return next == ranges_.end() ? bytes : std::min(bytes, next->first - offset);
  }
  void Take(std::uint64_t offset, std::uint64_t bytes) {
    if (bytes > 0) ranges_.emplace(offset, offset + bytes);
  }

 private:
  std::map<std::uint64_t, std::uint64_t> ranges_;  // begin to end
};

bool LiesInFile(const Extent& extent, std::uint64_t file_bytes) {
  return extent.offset <= file_bytes && extent.bytes <= file_bytes - extent.offset;
}

// How much of the extent can be read, in bytes; says what cannot.
std::uint64_t ReadableBytes(const Extent& extent, std::uint32_t index, std::uint64_t file_bytes, TakenRanges& taken,
                            JournalDamage& damage) {
  const std::string place = "extent " + std::to_string(index);
  if (extent.offset < journal::kHeaderBytes || extent.offset % alignof(std::uint64_t) != 0) {
    damage.Add(place + ": impossible offset, left out");
    return 0;
  }
  if (extent.offset >= file_bytes) {
    damage.Add(place + ": lies behind the end of the file, lost");
    return 0;
  }
  const std::uint64_t in_file = std::min(extent.bytes, file_bytes - extent.offset);
  const std::uint64_t free = taken.FreeAt(extent.offset, in_file);
  if (free < in_file) {
    damage.Add(place + ": shares bytes with another extent");
  } else if (in_file < extent.bytes) {
    damage.Add(place + ": cut off after " + std::to_string(in_file) + " of " + std::to_string(extent.bytes) + " bytes");
  }
  taken.Take(extent.offset, free);
  return free;
}

void PlaceExtents(const FileHeader& header, std::uint32_t count, std::uint64_t file_bytes, JournalLayout& layout,
                  JournalDamage& damage) {
  TakenRanges taken;
  std::vector<std::uint64_t> readable(count, 0);
  // First those that lie wholly in the file: one damaged size must not swallow the sound extents behind it.
  for (const bool whole : {true, false}) {
    for (std::uint32_t i = 0; i < count; ++i) {
      if (LiesInFile(header.extents[i], file_bytes) != whole) continue;
      readable[i] = ReadableBytes(header.extents[i], i, file_bytes, taken, damage);
    }
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    const Extent& extent = header.extents[i];
    const auto kind = static_cast<ExtentKind>(extent.kind);
    std::vector<ExtentPlace>* table = TableOf(layout, kind);
    if (table == nullptr) {
      damage.Add("extent " + std::to_string(i) + ": unknown kind " + std::to_string(extent.kind) + ", left out");
      continue;
    }
    const std::uint64_t whole_records = readable[i] - readable[i] % RecordBytes(kind);
    if (whole_records > 0 || kind == ExtentKind::kStacks) {
      table->push_back({extent.offset, whole_records, extent.bytes});
    }
  }
}

absl::Status CheckHeader(const FileHeader& header, const std::string& name) {
  if (header.version != journal::kVersion) {
    const bool newer = header.version > journal::kVersion;
    return FileError(absl::StatusCode::kFailedPrecondition, name, "byte 8",
                     "journal version " + std::to_string(header.version) + ", this cuheap reads version " +
                         std::to_string(journal::kVersion),
                     newer ? "it was made by a newer cuheap: update" : "read it with the cuheap that made it");
  }
  if (header.header_bytes != journal::kHeaderBytes || header.max_extents != journal::kMaxExtents ||
      header.max_devices != journal::kMaxDevices || header.pointer_bytes != 8) {
    return FileError(absl::StatusCode::kInvalidArgument, name, "byte 12", "the journal's header is damaged",
                     "nothing can be read from it");
  }
  if (header.state.load() == static_cast<std::uint32_t>(journal::ProcessState::kStarting)) {
    return FileError(absl::StatusCode::kFailedPrecondition, name, "",
                     "the program ended before it had begun to record (the header was never completed)",
                     "there is nothing to read");
  }
  return absl::OkStatus();
}

}  // namespace

void JournalDamage::Add(const std::string& text) {
  if (texts_.size() < kMaxDamageTexts) {
    texts_.push_back(text);
  } else {
    ++more_;
  }
}

absl::StatusOr<JournalLayout> ReadJournalLayout(const JournalBytes& bytes, const std::string& name,
                                                JournalDamage& damage) {
  const std::uint64_t file_bytes = bytes.size();
  std::uint64_t magic = 0;
  if (file_bytes == 0) {
    return FileError(absl::StatusCode::kInvalidArgument, name, "", "the file is empty", kNameAJournal);
  }
  if (!bytes.Read(0, &magic, sizeof(magic)) || magic != journal::kMagic) {
    // The magic number is written last: a header without it may be one that was never finished.
    return FileError(
        absl::StatusCode::kInvalidArgument, name, "byte 0",
        magic == 0 ? "not a journal, or one whose program ended before it had begun to record" : "not a cuheap journal",
        kNameAJournal);
  }
  if (file_bytes > kMaxJournalBytes) {
    return FileError(absl::StatusCode::kInvalidArgument, name, "",
                     "the file has " + std::to_string(file_bytes) + " bytes, more than a journal can have",
                     kNameAJournal);
  }
  JournalLayout layout;
  // Twice: the count of extents of the first copy covers extents that the second copy certainly has complete.
  if (!bytes.Read(0, layout.header.data(), sizeof(FileHeader))) {
    return FileError(absl::StatusCode::kInvalidArgument, name, "byte " + std::to_string(file_bytes),
                     "the journal's header is cut off", "nothing can be read from it");
  }
  std::uint32_t count = layout.header.get().extent_count.load();
  if (!bytes.Read(0, layout.header.data(), sizeof(FileHeader))) {
    return FileError(absl::StatusCode::kInvalidArgument, name, "", "the file shrank while it was read", "try again");
  }
  const FileHeader& header = layout.header.get();
  if (absl::Status status = CheckHeader(header, name); !status.ok()) return status;
  if (count > journal::kMaxExtents) {
    damage.Add("header: " + std::to_string(count) + " extents, more than there can be");
    count = journal::kMaxExtents;
  }
  // The size is taken last: space is allocated before an extent is published.
  const std::uint64_t size = bytes.size();
  PlaceExtents(header, count, size, layout, damage);
  return layout;
}

}  // namespace cuheap::analysis
