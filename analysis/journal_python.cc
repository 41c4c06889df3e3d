#include "analysis/journal_python.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

namespace cuheap::analysis {
namespace {

using journal::PythonCodeHeader;

// What a record takes at most: its parts are limited by the writer.
constexpr std::uint64_t kLargestRecord =
    sizeof(PythonCodeHeader) + 2 * journal::kMaxPythonText + journal::kMaxPythonLineTable + 8;

// The fields of a header, read word by word: headers hold an atomic and cannot be copied as such.
struct Header {
  explicit Header(const PythonCodeHeader& from)
      : commit(from.commit.load()),
        bytes(from.bytes),
        first_line(from.first_line),
        filename_bytes(from.filename_bytes),
        name_bytes(from.name_bytes),
        line_table_bytes(from.line_table_bytes),
        version(from.python_version),
        cut(from.cut) {}
  // The parts fit into the record, and the record into what is left of the extent.
  bool IsSound(std::uint64_t left) const {
    return bytes % 8 == 0 && bytes <= left && bytes <= kLargestRecord && filename_bytes <= journal::kMaxPythonText &&
           name_bytes <= journal::kMaxPythonText && line_table_bytes <= journal::kMaxPythonLineTable &&
           sizeof(PythonCodeHeader) + std::uint64_t{filename_bytes} + name_bytes + line_table_bytes <= bytes;
  }
  std::uint32_t commit, bytes, first_line, filename_bytes, name_bytes, line_table_bytes;
  std::uint16_t version, cut;
};

PythonCode MakeCode(const Header& header, const char* text) {
  PythonCode code;
  code.file.assign(text, header.filename_bytes);
  code.name.assign(text + header.filename_bytes, header.name_bytes);
  const char* table = text + header.filename_bytes + header.name_bytes;
  code.line_table.assign(table, table + header.line_table_bytes);
  code.first_line = header.first_line;
  code.version = header.version;
  code.file_cut = (header.cut & journal::kPythonFilenameCut) != 0;
  code.has_lines = (header.cut & journal::kPythonLineTableCut) == 0;
  return code;
}

// False: the extent is damaged, or could not be read to its end.
bool ReadExtent(const JournalBytes& bytes, const ExtentPlace& extent, const absl::flat_hash_set<std::uint32_t>& wanted,
                PythonCodes& codes) {
  alignas(PythonCodeHeader) char header_bytes[sizeof(PythonCodeHeader)];
  std::vector<char> text;
  for (std::uint64_t at = 0; extent.bytes - at >= sizeof(PythonCodeHeader);) {
    if (!bytes.Read(extent.offset + at, header_bytes, sizeof(header_bytes))) return false;
    const Header header(*reinterpret_cast<const PythonCodeHeader*>(header_bytes));
    if (header.commit == 0) return true;
    if (!header.IsSound(extent.bytes - at)) return false;
    if (wanted.contains(header.commit)) {
      text.resize(header.bytes - sizeof(PythonCodeHeader));
      if (!bytes.Read(extent.offset + at + sizeof(PythonCodeHeader), text.data(), text.size())) return false;
      codes.try_emplace(header.commit, MakeCode(header, text.data()));
    }
    at += header.bytes;
  }
  return true;
}

}  // namespace

PythonCodes ReadPythonCodes(const JournalBytes& bytes, const JournalLayout& layout,
                            const absl::flat_hash_set<std::uint32_t>& wanted, JournalDamage& damage) {
  PythonCodes codes;
  if (wanted.empty()) return codes;
  std::uint64_t damaged = 0;
  for (const ExtentPlace& extent : layout.python_code) {
    if (!ReadExtent(bytes, extent, wanted, codes)) ++damaged;
  }
  if (damaged > 0) damage.Add("Python code: " + std::to_string(damaged) + " extents could not be read to their end");
  return codes;
}

}  // namespace cuheap::analysis
