#include "analysis/exports/held_text.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "analysis/exports/held.h"
#include "analysis/reports/owners.h"
#include "analysis/reports/text_canvas.h"
#include "analysis/reports/text_format.h"

namespace cuheap::analysis {
namespace {

struct Row {
  std::string name;
  std::uint64_t bytes = 0, blocks = 0;
};

class Renderer {
 public:
  Renderer(const Report& report, const TextOptions& options) : report_(report), canvas_(options) {}

  void Place(const Held& held) {
    canvas_.Section("HELD", NameOf(held) + ": " + BytesBoth(held.bytes));
    if (held.bytes == 0) return;
    canvas_.Line();
    canvas_.Dim("      bytes    share   blocks  " + std::string(canvas_.peak_by() == PeakBy::kLibrary
                                                                    ? "library, package or program that is charged"
                                                                    : "line"));
    std::vector<Row> rows = RowsOf(held);
    const std::size_t shown = std::min(canvas_.top(), rows.size());
    Row rest;
    for (std::size_t i = shown; i < rows.size(); ++i) {
      rest.bytes += rows[i].bytes;
      rest.blocks += rows[i].blocks;
    }
    for (std::size_t i = 0; i < shown; ++i) Write(rows[i], held.bytes);
    if (shown == rows.size()) return;
    rest.name = "and " + Grouped(rows.size() - shown) + " more (--top " + std::to_string(rows.size()) + " shows all)";
    Write(rest, held.bytes);
  }

  TextCanvas& canvas() { return canvas_; }

 private:
  std::vector<Row> RowsOf(const Held& held) const {
    std::map<std::uint32_t, Row> lines;
    std::map<std::string, Row> others;
    for (const HeldStack& stack : held.stacks) {
      const bool by_line = canvas_.peak_by() != PeakBy::kLibrary && stack.part == HeldPart::kBlocks;
      const std::string name = stack.part != HeldPart::kBlocks ? std::string(NameOf(stack.part))
                               : by_line                       ? std::string()
                                                               : OwnerOf(report_.lines, stack.stack).name;
      Row& row = by_line ? lines[report_.lines.OfStack(stack.stack)] : others[name];
      row.bytes += stack.bytes;
      row.blocks += stack.blocks;
    }
    std::vector<Row> rows;
    for (auto& [line, row] : lines) {
      row.name = ShowLine(report_, report_.lines.line(line), canvas_.width() - 32, canvas_.utf8());
      rows.push_back(std::move(row));
    }
    for (auto& [name, row] : others) {
      row.name = Clip(name, canvas_.width() - 32, canvas_.utf8());
      rows.push_back(std::move(row));
    }
    std::erase_if(rows, [](const Row& row) { return row.bytes == 0; });
    std::sort(rows.begin(), rows.end(),
              [](const Row& a, const Row& b) { return std::tie(b.bytes, a.name) < std::tie(a.bytes, b.name); });
    return rows;
  }

  void Write(const Row& row, std::uint64_t whole) {
    canvas_.Line(PadLeft(HumanBytes(static_cast<double>(row.bytes)), 11) + "  " +
                 PadLeft(Percent(static_cast<double>(row.bytes) / static_cast<double>(whole)), 7) + "  " +
                 PadLeft(Grouped(row.blocks), 7) + "  " + row.name);
  }

  const Report& report_;
  TextCanvas canvas_;
};

}  // namespace

std::string RenderHeld(const Report& report, const Moment& moment, const std::string& when,
                       const TextOptions& options) {
  const Blocks& blocks = report.blocks;
  const std::vector<Held> places = HeldAt(*report.snapshot, blocks, moment);
  std::vector<std::string> notes;
  AddHeldNotes(*report.snapshot, blocks, moment, places, notes);
  Renderer renderer(report, options);
  renderer.canvas().Strong("What was held " + when);
  for (const Held& held : places) renderer.Place(held);
  if (!notes.empty()) renderer.canvas().Section("NOT KNOWN");
  for (const std::string& note : notes) renderer.canvas().Item(note, TextColor::kWarn);
  return renderer.canvas().Take();
}

}  // namespace cuheap::analysis
