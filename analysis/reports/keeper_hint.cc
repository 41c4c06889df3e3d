#include "analysis/reports/keeper_hint.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>

namespace cuheap::analysis {
namespace {

using std::string_view_literals::operator""sv;

bool IsWord(char letter) { return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_'; }

std::size_t Indent(std::string_view line) {
  const std::size_t at = line.find_first_not_of(" \t");
  return at == std::string_view::npos ? line.size() : at;
}

bool IsBlank(std::string_view line) {
  const std::size_t at = line.find_first_not_of(" \t\r");
  return at == std::string_view::npos || line[at] == '#';
}

bool BeginsFunction(std::string_view line) {
  line.remove_prefix(Indent(line));
  return line.starts_with("def ") || line.starts_with("async def ") || line.starts_with("class ");
}

// The line without its comment; a '#' in a string ends it too early, which costs a hint at most.
std::string_view Code(std::string_view line) { return line.substr(0, line.find('#')); }

template <std::size_t kCount>
bool ContainsAny(std::string_view text, const std::array<std::string_view, kCount>& parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return text.find(part) != std::string_view::npos; });
}

bool Mentions(std::string_view text, std::string_view name) {
  for (std::size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const bool begins = at == 0 || (!IsWord(text[at - 1]) && text[at - 1] != '.');
    const bool ends = at + name.size() >= text.size() || !IsWord(text[at + name.size()]);
    if (begins && ends) return true;
  }
  return false;
}

// call: the function's name and its parenthesis.
bool Calls(std::string_view code, std::string_view call) {
  for (std::size_t at = code.find(call); at != std::string_view::npos; at = code.find(call, at + 1)) {
    if (at == 0 || (!IsWord(code[at - 1]) && code[at - 1] != '.')) return true;
  }
  return false;
}

// Position of a '=' that assigns: not of ==, <=, a keyword argument or a default. npos: none.
std::size_t Assignment(std::string_view code) {
  int depth = 0;
  for (std::size_t i = 0; i < code.size(); ++i) {
    if (code[i] == '(' || code[i] == '[' || code[i] == '{') ++depth;
    if (code[i] == ')' || code[i] == ']' || code[i] == '}') --depth;
    if (code[i] != '=' || depth != 0) continue;
    if (i + 1 < code.size() && code[i + 1] == '=') {
      ++i;
      continue;
    }
    if (i != 0 && std::string_view("!<>=").find(code[i - 1]) != std::string_view::npos) continue;
    return i;
  }
  return std::string_view::npos;
}

// The names that a line assigns: "a, b = f()" gives a and b.
std::vector<std::string> Assigned(std::string_view code) {
  std::vector<std::string> names;
  const std::size_t end = Assignment(code);
  if (end == std::string_view::npos) return names;
  std::string name;
  for (const char letter : code.substr(0, end)) {
    if (IsWord(letter) || letter == '.') {
      name += letter;
    } else if (!name.empty()) {
      names.push_back(std::exchange(name, ""));
    }
  }
  if (!name.empty()) names.push_back(std::move(name));
  return names;
}

// The line puts something where it stays.
bool Keeps(std::string_view line, bool values) {
  const std::string_view code = Code(line);
  constexpr std::array kNumbers = {".item()"sv, ".tolist()"sv};
  constexpr std::array kMakesNumbers = {"float("sv, "int("sv, "len("sv};  // as words: not randint()
  constexpr std::array kLetsGo = {".detach()"sv, ".cpu()"sv, ".data"sv};
  const bool numbers =
      ContainsAny(code, kNumbers) ||
      std::any_of(kMakesNumbers.begin(), kMakesNumbers.end(), [&](std::string_view call) { return Calls(code, call); });
  if (numbers || (!values && ContainsAny(code, kLetsGo))) return false;
  constexpr std::array kPuts = {".append("sv, ".extend("sv,     ".appendleft("sv, ".add("sv,
                                ".update("sv, ".setdefault("sv, ".insert("sv,     ".put("sv};
  if (ContainsAny(code, kPuts)) return true;
  const std::size_t at = Assignment(code);
  if (at == std::string_view::npos || at == 0) return false;
  if (code[at - 1] == '+') {
    // `step += 1` keeps nothing.
    std::string_view what = code.substr(at + 1);
    what.remove_prefix(Indent(what));
    return !what.empty() && std::isdigit(static_cast<unsigned char>(what.front())) == 0;
  }
  std::string_view target = code.substr(0, at);
  target.remove_prefix(Indent(target));
  while (target.ends_with(' ')) target.remove_suffix(1);
  if (target.ends_with(']') && target.find('[') != 0 && target.find('[') != std::string_view::npos) return true;
  // total = total + loss
  return !target.empty() && std::all_of(target.begin(), target.end(), IsWord) &&
         Mentions(code.substr(at + 1), target) && code.find('+', at) != std::string_view::npos;
}

struct Range {
  std::size_t begin = 0, end = 0;  // indices of lines
};

// The body of the innermost function around a line; the file, if there is none.
Range FunctionAround(const std::vector<std::string>& lines, std::size_t at) {
  std::size_t begin = at, indent = Indent(lines[at]);
  while (begin > 0 && !(BeginsFunction(lines[begin]) && (begin == at || Indent(lines[begin]) < indent))) {
    --begin;
    if (!IsBlank(lines[begin]) && Indent(lines[begin]) < indent && !BeginsFunction(lines[begin]))
      indent = Indent(lines[begin]);
  }
  if (!BeginsFunction(lines[begin])) return {0, lines.size()};
  const std::size_t outer = Indent(lines[begin]);
  std::size_t end = at + 1;
  while (end < lines.size() && (IsBlank(lines[end]) || Indent(lines[end]) > outer)) ++end;
  return {begin, end};
}

}  // namespace

KeeperHint GuessKeeper(const SourceFile& source, std::uint32_t line, bool values) {
  KeeperHint hint;
  const std::vector<std::string>& lines = source.lines;
  if (line == 0 || line > lines.size()) return hint;
  const std::size_t at = line - 1;
  const Range function = FunctionAround(lines, at);
  const std::vector<std::string> names = Assigned(Code(lines[at]));
  std::vector<std::uint32_t> named, others;
  const auto look = [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      if (!Keeps(lines[i], values)) continue;
      const bool names_it = std::any_of(names.begin(), names.end(),
                                        [&](const std::string& name) { return Mentions(Code(lines[i]), name); });
      (i == at || names_it ? named : others).push_back(static_cast<std::uint32_t>(i + 1));
    }
  };
  look(at, function.end);
  // What the line stores itself need not be looked for elsewhere.
  if (!named.empty() && named.front() == line) named.resize(1);
  if (!named.empty()) others.clear();
  if (named.empty() && others.empty()) {
    look(0, lines.size());
    if (named.size() + others.size() > kMostHints) return hint;
  }
  hint.lines = std::move(named);
  hint.lines.insert(hint.lines.end(), others.begin(), others.end());
  if (hint.lines.size() > kMostHints) hint.lines.resize(kMostHints);
  return hint;
}

KeeperHint GuessGradientKeeper(const SourceFile& source) {
  KeeperHint hint;
  for (std::size_t i = 0; i < source.lines.size(); ++i) {
    const std::string_view code = Code(source.lines[i]);
    if (Keeps(code, true) && code.find(".grad") != std::string_view::npos)
      hint.lines.push_back(static_cast<std::uint32_t>(i + 1));
  }
  if (hint.lines.size() > kMostHints) hint.lines.clear();
  return hint;
}

}  // namespace cuheap::analysis
