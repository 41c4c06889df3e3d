#include "analysis/python_lines.h"

#include <cstddef>

namespace cuheap::analysis {
namespace {

constexpr std::int64_t kLargestLine = INT32_MAX;

std::uint32_t Checked(std::int64_t line) {
  return line > 0 && line <= kLargestLine ? static_cast<std::uint32_t>(line) : 0;
}

// 3.9: pairs of address step (unsigned) and line step (signed); a line holds from its address to the next one.
std::uint32_t LineInPairs(std::span<const std::uint8_t> table, std::int64_t line, std::uint64_t offset) {
  std::uint64_t address = 0;
  for (std::size_t i = 0; i + 1 < table.size(); i += 2) {
    address += table[i];
    if (address > offset) break;
    line += static_cast<std::int8_t>(table[i + 1]);
  }
  return Checked(line);
}

// 3.10: pairs of the length of a range in bytes (unsigned) and the line step before it (signed; -128: no line).
std::uint32_t LineInRanges(std::span<const std::uint8_t> table, std::int64_t line, std::uint64_t offset) {
  constexpr std::int8_t kNoLine = -128;
  std::uint64_t end = 0;
  for (std::size_t i = 0; i + 1 < table.size(); i += 2) {
    const auto step = static_cast<std::int8_t>(table[i + 1]);
    end += table[i];
    if (step != kNoLine) line += step;
    if (offset < end) return step == kNoLine ? 0 : Checked(line);
  }
  return 0;
}

// 3.11 and later: entries of a first byte 1cccclll (kind c, length l + 1 in code units) and the bytes that its kind
// has, whose bit 7 is clear.
class Locations {
 public:
  explicit Locations(std::span<const std::uint8_t> table) : table_(table) {}

  // The next entry; false at the end, or where the table is damaged.
  bool Next(unsigned& kind, unsigned& units, std::int64_t& line_step) {
    constexpr unsigned kOneLine = 10, kNoColumns = 13, kLong = 14, kNone = 15;
    if (at_ >= table_.size() || (table_[at_] & 0x80) == 0) return false;
    kind = (table_[at_] >> 3) & 15;
    units = (table_[at_] & 7) + 1;
    ++at_;
    line_step = 0;
    if (kind == kNone) return true;
    if (kind == kLong || kind == kNoColumns) {
      line_step = SignedNumber();
      for (int i = 0; kind == kLong && i < 3; ++i) Number();
      return !damaged_;
    }
    if (kind >= kOneLine) line_step = kind - kOneLine;
    at_ += kind >= kOneLine ? 2 : 1;  // columns
    return true;
  }
  static bool HasLine(unsigned kind) { return kind != 15; }

 private:
  // Six bits a byte, the lowest first; bit 6 says that more follow.
  std::uint64_t Number() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; at_ < table_.size() && shift < 36; shift += 6) {
      const std::uint8_t byte = table_[at_++];
      value |= std::uint64_t{byte & 0x3Fu} << shift;
      if ((byte & 0x40) == 0) return value;
    }
    damaged_ = true;
    return 0;
  }
  std::int64_t SignedNumber() {
    const std::uint64_t value = Number();
    const auto magnitude = static_cast<std::int64_t>(value >> 1);
    return (value & 1) != 0 ? -magnitude : magnitude;
  }

  std::span<const std::uint8_t> table_;
  std::size_t at_ = 0;
  bool damaged_ = false;
};

std::uint32_t LineInLocations(std::span<const std::uint8_t> table, std::int64_t line, std::uint64_t offset) {
  Locations locations(table);
  std::uint64_t end = 0;
  unsigned kind = 0, units = 0;
  std::int64_t step = 0;
  while (locations.Next(kind, units, step)) {
    line += step;
    end += std::uint64_t{units} * 2;
    if (offset < end) return Locations::HasLine(kind) ? Checked(line) : 0;
  }
  return 0;
}

}  // namespace

std::uint32_t PythonLine(std::uint16_t python_version, std::span<const std::uint8_t> table, std::uint32_t first_line,
                         std::uint64_t offset) {
  if (python_version >> 8 != 3) return 0;
  switch (python_version & 0xFF) {
    case 9:
      return LineInPairs(table, first_line, offset);
    case 10:
      return LineInRanges(table, first_line, offset);
    case 11:
    case 12:
    case 13:
      return LineInLocations(table, first_line, offset);
    default:
      return 0;
  }
}

}  // namespace cuheap::analysis
