#include "analysis/reports/line_json.h"

#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>

namespace cuheap::analysis {

nlohmann::ordered_json LineJson(const CodeLine& line) {
  // The words of this format: they never change their meaning.
  constexpr std::array<std::string_view, 4> kBases = {"no_stack", "module", "function", "line"};
  nlohmann::ordered_json json = {
      {"text", Describe(line)},    {"basis", kBases.at(static_cast<std::size_t>(line.basis))},
      {"function", line.function}, {"file", line.file},
      {"line", line.line},         {"module", line.module}};
  if (line.basis == LineBasis::kModule) json["offset"] = line.offset;
  return json;
}

}  // namespace cuheap::analysis
