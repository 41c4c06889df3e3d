#include "interpose/python/code_table.h"

#include <algorithm>
#include <cstring>

#include "interpose/python/fingerprint.h"
#include "interpose/python/reading.h"
#include "interpose/python/utf8.h"
#include "interpose/recorder/own_memory.h"

namespace cuheap::python {
namespace {

using journal::PythonCodeHeader;

constexpr std::uint64_t kFirstExtentBytes = 64 * 1024;
constexpr std::uint64_t kLargestExtentBytes = 4 * 1024 * 1024;
// Where code objects stop being copied: a program that makes so many compiles without end.
constexpr std::uint64_t kMaxExtentBytes = 256ull * 1024 * 1024;
constexpr std::size_t kWord = 8;

// Copies a string object's characters as UTF-8; 0 and `cut` if it cannot be read.
std::uint32_t CopyText(CheckedReader& reader, const Interpreter& interpreter, std::uint64_t object, char* out,
                       bool& cut) {
  StringBytes string;
  cut = true;
  if (!ReadString(reader, interpreter, object, string)) return 0;
  // Only the characters that may fit are looked at: one takes at least a byte.
  const std::uint64_t characters = std::min<std::uint64_t>(string.bytes / string.kind, journal::kMaxPythonText + 1);
  if (!reader.MayRead(string.data, std::max<std::uint64_t>(characters * string.kind, 1))) return 0;
  const Utf8Result copied =
      ToUtf8(reinterpret_cast<const void*>(string.data), string.kind, characters, out, journal::kMaxPythonText);
  cut = copied.cut;
  return static_cast<std::uint32_t>(copied.bytes);
}

}  // namespace

std::uint32_t CodeTable::FindIn(const Map* map, std::uint64_t fingerprint) {
  if (map == nullptr) return 0;
  for (std::uint64_t i = fingerprint & (map->capacity - 1);; i = (i + 1) & (map->capacity - 1)) {
    const std::uint64_t there = map->slots[i].fingerprint.load(std::memory_order_acquire);
    if (there == fingerprint) return map->slots[i].number.load(std::memory_order_relaxed);
    if (there == 0) return 0;
  }
}

std::uint32_t CodeTable::Find(std::uint64_t fingerprint) const {
  return FindIn(map_.load(std::memory_order_acquire), fingerprint);
}

void CodeTable::Insert(Map& map, std::uint64_t fingerprint, std::uint32_t number) {
  std::uint64_t i = fingerprint & (map.capacity - 1);
  while (map.slots[i].fingerprint.load(std::memory_order_relaxed) != 0) i = (i + 1) & (map.capacity - 1);
  map.slots[i].number.store(number, std::memory_order_relaxed);
  map.slots[i].fingerprint.store(fingerprint, std::memory_order_release);
  ++map.size;
}

bool CodeTable::Grow() {
  Map* map = map_.load(std::memory_order_relaxed);
  if (map != nullptr && (map->size + 1) * 2 <= map->capacity) return true;
  const std::uint64_t capacity = map == nullptr ? 1024 : map->capacity * 2;
  auto* bigger = static_cast<Map*>(recorder::MapMemory(sizeof(Map) + capacity * sizeof(Slot)));
  if (bigger == nullptr) return map != nullptr && map->size + 1 < map->capacity;
  bigger->capacity = capacity;
  for (std::uint64_t i = 0; map != nullptr && i < map->capacity; ++i) {
    const std::uint64_t fingerprint = map->slots[i].fingerprint.load(std::memory_order_relaxed);
    if (fingerprint != 0) Insert(*bigger, fingerprint, map->slots[i].number.load(std::memory_order_relaxed));
  }
  map_.store(bigger, std::memory_order_release);
  return true;
}

std::uint32_t CodeTable::Add(std::uint64_t fingerprint, const Interpreter& interpreter, std::uint64_t code) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (const std::uint32_t number = FindIn(map_.load(std::memory_order_relaxed), fingerprint)) return number;
  if (!Grow()) return 0;
  const std::uint32_t number = Write(interpreter, code);
  if (number != 0) {
    Insert(*map_.load(std::memory_order_relaxed), fingerprint, number);
  } else {
    recorder_->Note(journal::NoteCode::kNoSpace, "Python code: some frames have no name and line", 0, 0);
  }
  return number;
}

// The place for a record of at most `bytes`; it is taken only when the caller moves next_.
std::byte* CodeTable::Room(std::size_t bytes) {
  if (static_cast<std::size_t>(end_ - next_) >= bytes) return next_;
  if (all_extent_bytes_ >= kMaxExtentBytes) return nullptr;
  const std::uint64_t page = journal::kExtentAlignment;
  const std::uint64_t least = (std::max<std::uint64_t>(bytes, kFirstExtentBytes) + page - 1) / page * page;
  const auto added =
      recorder_->file.AddExtent(journal::ExtentKind::kPythonCode, 0, std::max(next_extent_bytes_, least), least);
  if (added.memory == nullptr) return nullptr;
  next_extent_bytes_ = std::min(next_extent_bytes_ * 2, kLargestExtentBytes);
  all_extent_bytes_ += added.bytes;
  next_ = static_cast<std::byte*>(added.memory);
  end_ = next_ + added.bytes;
  return next_;
}

std::uint32_t CodeTable::Write(const Interpreter& interpreter, std::uint64_t code) {
  const Layout& layout = *interpreter.layout;
  CheckedReader reader;
  std::uint64_t filename, name, line_table;
  std::uint32_t first_line;
  if (count_ == journal::kMaxPythonCodes || !Load(reader, code + layout.code_filename, filename) ||
      !Load(reader, code + layout.code_name, name) || !Load(reader, code + layout.code_line_table, line_table) ||
      !Load(reader, code + layout.code_first_line, first_line)) {
    return 0;
  }
  StringBytes table;
  const bool has_table = ReadBytes(reader, interpreter, line_table, table) &&
                         table.bytes <= journal::kMaxPythonLineTable && reader.MayRead(table.data, table.bytes + 1);
  if (!has_table) table.bytes = 0;
  std::byte* room = Room(sizeof(PythonCodeHeader) + 2 * std::size_t{journal::kMaxPythonText} + table.bytes + kWord);
  if (room == nullptr) return 0;
  auto* header = reinterpret_cast<PythonCodeHeader*>(room);
  char* text = reinterpret_cast<char*>(header + 1);
  bool filename_cut, name_cut;
  header->first_line = first_line;
  header->python_version = static_cast<std::uint16_t>(interpreter.version);
  header->filename_bytes = CopyText(reader, interpreter, filename, text, filename_cut);
  text += header->filename_bytes;
  header->name_bytes = CopyText(reader, interpreter, name, text, name_cut);
  text += header->name_bytes;
  header->line_table_bytes = static_cast<std::uint32_t>(table.bytes);
  std::memcpy(text, reinterpret_cast<const void*>(table.data), table.bytes);
  text += table.bytes;
  header->cut = static_cast<std::uint16_t>((filename_cut ? journal::kPythonFilenameCut : 0) |
                                           (name_cut ? journal::kPythonNameCut : 0) |
                                           (has_table ? 0 : journal::kPythonLineTableCut));
  const std::size_t bytes =
      (static_cast<std::size_t>(text - reinterpret_cast<char*>(room)) + kWord - 1) / kWord * kWord;
  header->bytes = static_cast<std::uint32_t>(bytes);
  header->commit.store(++count_, std::memory_order_release);
  next_ += bytes;
  return count_;
}

}  // namespace cuheap::python
