#include "analysis/html/page_stacks.h"

#include <array>
#include <cstdio>

#include "analysis/printable.h"
#include "analysis/reports/report_text.h"
#include "analysis/reports/text_format.h"

namespace cuheap::analysis {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLongestName = 160;  // columns: C++ names may be pages long
constexpr std::size_t kLongestPath = 400;

// Whose code: 0 the user's, 1 a package's, 2 a CUDA library's, 3 anybody else's.
int OriginOf(ModuleClass module_class) {
  switch (module_class) {
    case ModuleClass::kUser:
      return 0;
    case ModuleClass::kPackage:
      return 1;
    case ModuleClass::kCudaLibrary:
      return 2;
    default:
      return 3;
  }
}

template <typename Value, typename Of>
Json Column(const std::vector<Value>& rows, Of of) {
  Json column = Json::array();
  for (const Value& row : rows) column.push_back(of(row));
  return column;
}

}  // namespace

std::uint32_t PageStacks::String(const std::string& text) {
  const auto [entry, fresh] = string_index_.try_emplace(text, static_cast<std::uint32_t>(strings_.size()));
  if (fresh) strings_.push_back(text);
  return entry->second;
}

std::string PageStacks::FunctionOf(const cuheap::analysis::Frame& frame) const {
  if (frame.function != 0)
    return Clip(ShortFunction(snapshot_.strings[frame.function], kLongestName), kLongestName, true);
  if (frame.module == 0) return "(unknown)";
  const std::string& path = snapshot_.modules[frame.module - 1].path;
  std::array<char, 24> offset;
  std::snprintf(offset.data(), offset.size(), "+0x%llx", static_cast<unsigned long long>(frame.offset));
  return Printable(path.substr(path.find_last_of("/\\") + 1)) + offset.data();
}

std::uint32_t PageStacks::Frame(std::uint32_t index) {
  const auto [entry, fresh] = frame_index_.try_emplace(index, static_cast<std::uint32_t>(frames_.size()));
  if (!fresh) return entry->second;
  const cuheap::analysis::Frame& frame = snapshot_.frames[index];
  PageFrame row;
  row.function = String(FunctionOf(frame));
  row.file = String(Clip(snapshot_.strings[frame.file], kLongestPath, true));
  row.line = frame.line;
  row.origin = OriginOf(report_.lines.ClassOfFrame(index));
  // Code of headers that was compiled into the user's module, and what starts main.
  const std::string& file = snapshot_.strings[frame.file];
  if (row.origin == 0 && (file.empty() ? snapshot_.strings[frame.function] == "_start" : IsSystemSource(file)))
    row.origin = 3;
  frames_.push_back(row);
  return entry->second;
}

std::uint32_t PageStacks::Line(std::uint32_t index) {
  const auto [entry, fresh] = line_index_.try_emplace(index, static_cast<std::uint32_t>(lines_.size()));
  if (!fresh) return entry->second;
  const CodeLine& line = report_.lines.line(index);
  PageLine row;
  row.text = String(Clip(ShowLine(report_, line, kLongestName, true), kLongestName, true));
  row.file = String(Clip(line.file, kLongestPath, true));
  row.line = line.line;
  row.origin = OriginOf(line.module_class);
  lines_.push_back(row);
  return entry->second;
}

std::uint32_t PageStacks::Stack(std::uint32_t index) {
  const auto [entry, fresh] = stack_index_.try_emplace(index, static_cast<std::uint32_t>(stacks_.size()));
  if (!fresh) return entry->second;
  std::uint32_t node = 0;
  if (index < snapshot_.stacks.size()) {
    const std::vector<std::uint32_t>& frames = snapshot_.stacks[index].frames;
    for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
      const auto [child, added] =
          node_index_.try_emplace({node, Frame(*frame)}, static_cast<std::uint32_t>(nodes_.size() + 1));
      if (added) nodes_.emplace_back(node, child->first.second);
      node = child->second;
    }
  }
  stacks_.emplace_back(node, Line(report_.lines.OfStack(index)));
  return entry->second;
}

void PageStacks::Write(Json& json) const {
  json["strings"] = strings_;
  json["frames"] = {{"function", Column(frames_, [](const PageFrame& frame) { return frame.function; })},
                    {"file", Column(frames_, [](const PageFrame& frame) { return frame.file; })},
                    {"line", Column(frames_, [](const PageFrame& frame) { return frame.line; })},
                    {"origin", Column(frames_, [](const PageFrame& frame) { return frame.origin; })}};
  json["nodes"] = {{"parent", Column(nodes_, [](const auto& node) { return node.first; })},
                   {"frame", Column(nodes_, [](const auto& node) { return node.second; })}};
  json["stacks"] = {{"node", Column(stacks_, [](const auto& stack) { return stack.first; })},
                    {"line", Column(stacks_, [](const auto& stack) { return stack.second; })}};
  json["lines"] = {{"text", Column(lines_, [](const PageLine& line) { return line.text; })},
                   {"file", Column(lines_, [](const PageLine& line) { return line.file; })},
                   {"line", Column(lines_, [](const PageLine& line) { return line.line; })},
                   {"origin", Column(lines_, [](const PageLine& line) { return line.origin; })}};
}

}  // namespace cuheap::analysis
