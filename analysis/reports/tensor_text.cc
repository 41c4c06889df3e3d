#include "analysis/reports/tensor_text.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "analysis/printable.h"
#include "analysis/reports/framework_frames.h"
#include "analysis/reports/keeper_hint.h"
#include "analysis/reports/report_text.h"
#include "analysis/reports/text_format.h"

namespace cuheap::analysis {
namespace {

constexpr std::size_t kPartsShown = 5;
constexpr std::size_t kFramesShown = 8;

bool IsPython(const CodeLine& line) { return line.basis == LineBasis::kLine && line.module.empty(); }

}  // namespace

std::string CausePhrase(const LeakFinding& finding) {
  switch (finding.cause) {
    case LeakCause::kGraph:
      return "autograd graphs that are kept alive";
    case LeakCause::kScalar:
      return "single numbers, kept as tensors";
    case LeakCause::kTensor:
      return "tensors that are kept";
    case LeakCause::kGradient:
      return "gradients that are kept";
    case LeakCause::kOptimizerState:
      return "an optimizer's state, made anew";
    case LeakCause::kNone:
      break;
  }
  return "";
}

void TensorText::Code(const CodeLine& line) {
  if (source_ == nullptr || !IsPython(line)) return;
  const std::string_view code = source_->Line(line.file, line.line);
  if (code.empty()) return;
  const std::string changed = source_->Read(line.file).changed ? "   (the file was changed since the run)" : "";
  canvas_.Line("       " + Clip(Printable(code), canvas_.width() - 7 - Columns(changed), canvas_.utf8()) + changed);
}

void TensorText::NotReadable(const CodeLine& line) {
  if (source_ == nullptr || !IsPython(line) || !source_->Line(line.file, line.line).empty()) return;
  canvas_.Detail("the source is not readable here, so its lines are not shown");
}

void TensorText::Parts(const LeakFinding& finding) {
  if (finding.parts.size() < 2) return;
  const bool by_step = finding.parts.front().bytes_per_step > 0;
  canvas_.Detail(by_step ? "allocated each step at" : "allocated at");
  const std::size_t shown = std::min(kPartsShown, finding.parts.size());
  double rest = 0;
  for (std::size_t i = 0; i < finding.parts.size(); ++i) {
    const LeakPart& part = finding.parts[i];
    const double bytes = by_step ? part.bytes_per_step : static_cast<double>(part.bytes);
    if (i >= shown) {
      rest += bytes;
      continue;
    }
    const CodeLine& line = report_.lines.line(part.line);
    std::string text = PadLeft(HumanBytes(bytes), 16) + "  " + ShowLine(report_, line, 48, canvas_.utf8());
    if (source_ != nullptr && IsPython(line)) {
      if (const std::string_view code = source_->Line(line.file, line.line); !code.empty())
        text += "  " + Printable(code);
    }
    canvas_.Line(text);
  }
  if (shown < finding.parts.size())
    canvas_.Dim(PadLeft(HumanBytes(rest), 16) + "  " + Plural(finding.parts.size() - shown, "other line"));
}

void TensorText::Keeper(const LeakFinding& finding) {
  const CodeLine& line = report_.lines.line(finding.line);
  if (source_ == nullptr || !IsPython(line)) return;
  const bool values = finding.cause == LeakCause::kScalar || finding.cause == LeakCause::kTensor;
  const bool gradient = finding.cause == LeakCause::kGradient;
  if (!values && !gradient && finding.cause != LeakCause::kGraph) return;
  const SourceFile& source = source_->Read(line.file);
  const KeeperHint hint = gradient ? GuessGradientKeeper(source) : GuessKeeper(source, line.line, values);
  if (hint.lines.empty()) return;
  if (hint.lines.front() == line.line) {
    canvas_.Detail("kept, it seems from the source, by the line itself");
    return;
  }
  canvas_.Detail(hint.lines.size() == 1 ? "kept, it seems from the source, by"
                                        : "kept, it seems from the source, by one of");
  for (const std::uint32_t number : hint.lines) {
    CodeLine keeper = line;
    keeper.line = number;
    keeper.function.clear();
    canvas_.Line("       " + ShowLine(report_, keeper, 48, canvas_.utf8()) + "  " +
                 Printable(source_->Line(line.file, number)));
  }
}

bool TensorText::Stack(std::uint32_t stack) {
  const Snapshot& snapshot = *report_.snapshot;
  if (stack == 0 || stack >= snapshot.stacks.size()) return false;
  const std::vector<std::uint32_t>& frames = snapshot.stacks[stack].frames;
  const std::size_t chosen = report_.lines.PositionInStack(stack);
  struct Row {
    std::string name, place;
    bool chosen = false;
  };
  std::vector<Row> rows;
  bool python = false;
  if (const std::uint32_t node = snapshot.stacks[stack].backward; node != 0)
    rows.push_back({"backward of the line: " + ShortFunction(snapshot.strings[node], 40), "", false});
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const Frame& frame = snapshot.frames[frames[i]];
    const std::string& function = snapshot.strings[frame.function];
    if (frame.kind == FrameKind::kPython) {
      python = true;
      const std::string& file = snapshot.strings[frame.file];
      // Outside of the user's line only the user's frames tell something; inside, who was called.
      const bool library = IsTorchSource(file) || file.find("-packages/") != std::string::npos || file.starts_with("<");
      if (library && i != chosen) continue;
      rows.push_back({ShortFunction(function, 40),
                      ShortPath(file, FolderOf(report_, file), 50, canvas_.utf8()) + ":" + std::to_string(frame.line),
                      i == chosen});
    } else if (!python && snapshot.stacks[stack].backward == 0 && !OperatorOf(function).empty()) {
      rows.assign(1, {ShortFunction(function, 40), "", false});  // the outermost operator
    }
  }
  if (!python) return false;
  std::size_t width = 0;
  for (const Row& row : rows) width = std::max(width, Columns(row.name));
  for (std::size_t i = 0; i < std::min(kFramesShown, rows.size()); ++i) {
    const std::string name =
        rows[i].place.empty() ? rows[i].name : PadRight(rows[i].name, width) + "  " + rows[i].place;
    canvas_.Dim(std::string(rows[i].chosen ? "    >  " : "       ") + name);
  }
  if (rows.size() > kFramesShown) canvas_.Dim("       " + Plural(rows.size() - kFramesShown, "more frame"));
  return true;
}

}  // namespace cuheap::analysis
