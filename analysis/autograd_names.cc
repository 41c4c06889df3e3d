#include "analysis/autograd_names.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>

namespace cuheap::analysis {
namespace {

using std::string_view_literals::operator""sv;

// What stands between `begin` and `end` in the text, if both are there and no other part of a name is between.
std::string_view Between(std::string_view text, std::string_view begin, std::string_view end) {
  const std::size_t at = text.find(begin);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + begin.size());
  const std::size_t stop = text.find(end);
  if (stop == std::string_view::npos) return {};
  const std::string_view name = text.substr(0, stop);
  const bool is_name =
      std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
  return is_name ? name : std::string_view();
}

bool IsOverload(std::string_view name) {
  // Overloads are named after types (Tensor, Scalar, IntList) or after arguments; of these the ones that occur.
  constexpr std::array kArguments = {"dim"sv,   "int"sv,  "correction"sv, "forward"sv, "out"sv, "self"sv,
                                     "other"sv, "dims"sv, "names"sv,      "size"sv,    "p"sv,   "values"sv,
                                     "start"sv, "step"sv, "vec"sv,        "default"sv};
  if (name.empty()) return true;
  if (name.front() >= 'A' && name.front() <= 'Z') return true;
  const std::string_view first = name.substr(0, name.find('_'));
  return std::find(kArguments.begin(), kArguments.end(), first) != kArguments.end();
}

}  // namespace

std::string_view NodeOfFunction(std::string_view function) {
  const std::string_view generated = Between(function, "torch::autograd::generated::", "::apply(");
  return generated.empty() ? Between(function, "torch::autograd::", "::apply(") : generated;
}

std::string_view OperationOfFunction(std::string_view function) {
  return Between(function, "torch::autograd::VariableType::(anonymous namespace)::", "(");
}

bool Makes(std::string_view operation, std::string_view node) {
  const std::size_t backward = node.rfind("Backward");
  if (backward == std::string_view::npos || backward == 0) return false;
  const std::string_view base = node.substr(0, backward);
  std::size_t matched = 0, at = 0;
  for (; at < operation.size() && matched < base.size(); ++at) {
    if (operation[at] == '_') continue;
    if (std::tolower(static_cast<unsigned char>(operation[at])) !=
        std::tolower(static_cast<unsigned char>(base[matched]))) {
      return false;
    }
    ++matched;
  }
  if (matched < base.size()) return false;
  if (at == operation.size()) return true;
  return operation[at] == '_' && IsOverload(operation.substr(at + 1));
}

}  // namespace cuheap::analysis
