#include <algorithm>
#include <bit>
#include <map>
#include <tuple>
#include <vector>

#include "analysis/reports/fragmentation_text.h"
#include "analysis/reports/text_format.h"

namespace cuheap::analysis {
namespace {

constexpr std::size_t kLetters = 26;
constexpr std::size_t kMargin = 36;  // columns before the cells

std::string Human(std::uint64_t bytes) { return HumanBytes(static_cast<double>(bytes)); }

std::string Hex(std::uint64_t address) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  do text.insert(text.begin(), kDigits[address % 16]);
  while ((address /= 16) != 0);
  return "0x" + text;
}

class MapText {
 public:
  MapText(const Report& report, const FragmentationState& state, TextCanvas& canvas)
      : report_(report), state_(state), canvas_(canvas) {
    std::uint64_t largest = 1;
    std::map<std::uint32_t, std::uint64_t> by_line;
    for (const MapSegment& segment : state.map.segments) {
      largest = std::max(largest, segment.bytes);
      for (const MapBlock& block : segment.blocks) by_line[report.lines.OfStack(block.stack)] += block.bytes;
    }
    const std::uint64_t columns = canvas.width() - kMargin;
    cell_ = std::bit_ceil(std::max<std::uint64_t>(512, (largest - 1) / columns + 1));
    for (const auto& [line, bytes] : by_line) ranked_.emplace_back(bytes, line);
    std::sort(ranked_.begin(), ranked_.end(),
              [](const auto& a, const auto& b) { return std::tie(b.first, a.second) < std::tie(a.first, b.second); });
  }

  std::uint64_t cell() const { return cell_; }

  void Rows() {
    const std::vector<MapSegment>& segments = state_.map.segments;
    // If there are too many, those with most idle memory.
    std::vector<std::size_t> shown(segments.size());
    for (std::size_t i = 0; i < shown.size(); ++i) shown[i] = i;
    const auto idle = [&](std::size_t i) { return segments[i].bytes - segments[i].occupied(); };
    std::stable_sort(shown.begin(), shown.end(), [&](std::size_t a, std::size_t b) { return idle(a) > idle(b); });
    shown.resize(std::min(shown.size(), 4 * canvas_.top()));
    std::sort(shown.begin(), shown.end());
    std::uint64_t left = 0;
    for (const MapSegment& segment : segments) left += segment.bytes;
    for (const std::size_t i : shown) {
      Row(segments[i]);
      left -= segments[i].bytes;
    }
    if (shown.size() < segments.size()) {
      canvas_.Dim("  and " + Plural(segments.size() - shown.size(), "segment") + " with less idle memory, " +
                  Human(left) + " in all");
    }
  }

  void Legend() {
    canvas_.Dim("  . idle; a capital letter fills its place, a small one shares it with idle memory");
    const std::size_t named = std::min({ranked_.size(), kLetters, canvas_.top()});
    for (std::size_t i = 0; i < named; ++i) {
      canvas_.Line("  " + std::string(1, static_cast<char>('A' + i)) + PadLeft(Human(ranked_[i].first), 12) + "  " +
                   ShowLine(report_, report_.lines.line(ranked_[i].second), canvas_.width() - 18, canvas_.utf8()));
    }
    if (ranked_.size() > named) canvas_.Dim("  * " + Plural(ranked_.size() - named, "other line"));
  }

 private:
  char Letter(std::uint32_t line, bool full) const {
    const std::size_t named = std::min({ranked_.size(), kLetters, canvas_.top()});
    for (std::size_t i = 0; i < named; ++i) {
      if (ranked_[i].second == line) return static_cast<char>((full ? 'A' : 'a') + i);
    }
    return '*';
  }

  void Row(const MapSegment& segment) {
    struct Cell {
      std::map<std::uint32_t, std::uint64_t> lines;
      std::uint64_t used = 0;
    };
    std::vector<Cell> cells((segment.bytes + cell_ - 1) / cell_);
    for (const MapBlock& block : segment.blocks) {
      const std::uint32_t line = report_.lines.OfStack(block.stack);
      std::uint64_t at = block.address - segment.address;
      for (const std::uint64_t end = at + block.bytes; at < end;) {
        const std::uint64_t until = std::min(end, (at / cell_ + 1) * cell_);
        Cell& cell = cells[at / cell_];
        cell.lines[line] += until - at;
        cell.used += until - at;
        at = until;
      }
    }
    std::string row;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const Cell& cell = cells[i];
      if (cell.lines.empty()) {
        row += '.';
        continue;
      }
      const auto most = std::max_element(cell.lines.begin(), cell.lines.end(),
                                         [](const auto& a, const auto& b) { return a.second < b.second; });
      row += Letter(most->first, cell.used == std::min(cell_, segment.bytes - i * cell_));
    }
    const std::uint64_t used = segment.occupied();
    const std::string text =
        "  " + PadRight(Hex(segment.address), 14) + PadLeft(Human(segment.bytes), 10) +
        PadLeft(Percent(static_cast<double>(used) / static_cast<double>(std::max<std::uint64_t>(1, segment.bytes))),
                8) +
        "  " + row;
    if (used == 0)
      canvas_.Dim(text);
    else
      canvas_.Line(text);
  }

  const Report& report_;
  const FragmentationState& state_;
  TextCanvas& canvas_;
  std::uint64_t cell_ = 1;
  std::vector<std::pair<std::uint64_t, std::uint32_t>> ranked_;  // bytes, line
};

std::string MomentText(FragmentationMoment moment) {
  switch (moment) {
    case FragmentationMoment::kRefusal:
      return "when memory was refused";
    case FragmentationMoment::kGrowth:
      return "when it grew to its most";
    case FragmentationMoment::kLast:
      return "when the last tensor was made";
    case FragmentationMoment::kEnd:
      break;
  }
  return "at the end";
}

}  // namespace

void AddressMapSection(const Report& report, const Fragmentation& fragmentation, TextCanvas& canvas) {
  const FragmentationState& state = fragmentation.main();
  MapText text(report, state, canvas);
  canvas.Section("ADDRESS MAP", std::string(fragmentation.owner == MapOwner::kPyTorch ? "PyTorch's cache" : "pool") +
                                    " on device " + std::to_string(fragmentation.device) + " " +
                                    MomentText(state.moment) + "; one place is " + Human(text.cell()));
  if (state.map.segments.empty()) return canvas.Paragraph("Nothing was held.");
  canvas.Dim("  address             bytes    used");
  text.Rows();
  text.Legend();
}

}  // namespace cuheap::analysis
