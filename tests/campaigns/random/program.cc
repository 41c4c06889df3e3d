#include "tests/campaigns/random/program.h"

#include <charconv>
#include <cstdio>
#include <istream>
#include <map>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string_view>

namespace cuheap::campaigns {
namespace {

constexpr std::array<std::string_view, kOpKinds> kTexts{
#define OPERATION(kind, text) text,
#include "tests/campaigns/random/operations.inc"
#undef OPERATION
};

constexpr std::array<std::pair<std::int64_t, std::string_view>, 4> kSpecialStreams{
    {{kNullPtsz, "NULL_ptsz"}, {kNullStream, "NULL"}, {kLegacyStream, "LEGACY"}, {kPerThreadStream, "PER_THREAD"}}};

std::string Argument(char kind, std::int64_t value) {
  char hex[32];
  switch (kind) {
    case 's':
      for (const auto& [stream, name] : kSpecialStreams) {
        if (stream == value) return std::string(name);
      }
      break;
    case 'n':
    case 'd':
      return std::to_string(value);
    case 'v':
      std::snprintf(hex, sizeof(hex), "0x%llx", static_cast<unsigned long long>(value));
      return hex;
    default:
      break;
  }
  return kind + std::to_string(value);
}

// Takes an argument of the kind from the beginning of the text.
std::optional<std::int64_t> TakeArgument(char kind, std::string_view& text) {
  int base = 10;
  if (kind == 's') {
    for (const auto& [stream, name] : kSpecialStreams) {
      if (!text.starts_with(name)) continue;
      text.remove_prefix(name.size());
      return stream;
    }
  }
  if (kind == 'v') {
    if (!text.starts_with("0x")) return std::nullopt;
    text.remove_prefix(2);
    base = 16;
  } else if (kind != 'n' && kind != 'd') {
    if (text.empty() || text.front() != kind) return std::nullopt;
    text.remove_prefix(1);
  }
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

std::optional<Op> ParseAs(OpKind kind, std::string_view text) {
  Op op{.kind = kind};
  std::string_view pattern = kTexts[static_cast<std::size_t>(kind)];
  std::size_t index = 0;
  while (!pattern.empty()) {
    if (pattern.front() == '%') {
      const auto value = TakeArgument(pattern[1], text);
      if (!value) return std::nullopt;
      op.args[index++] = *value;
      pattern.remove_prefix(2);
      continue;
    }
    if (text.empty() || text.front() != pattern.front()) return std::nullopt;
    text.remove_prefix(1);
    pattern.remove_prefix(1);
  }
  if (!text.empty()) return std::nullopt;
  return op;
}

std::optional<Op> ParseOp(std::string_view text) {
  for (std::size_t kind = 0; kind < kOpKinds; ++kind) {
    if (const auto op = ParseAs(static_cast<OpKind>(kind), text)) return op;
  }
  return std::nullopt;
}

std::string_view Trimmed(std::string_view line) {
  if (const auto comment = line.find("//"); comment != std::string_view::npos) line = line.substr(0, comment);
  const auto first = line.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(" \t;\r") - first + 1);
}

// "[NUMBER] tTHREAD TEXT".
std::optional<Op> ParseLine(std::string_view line) {
  const auto thread = line.find('t');
  if (thread == std::string_view::npos || line.find_first_not_of("0123456789 ") != thread) return std::nullopt;
  line.remove_prefix(thread + 1);
  int number = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
  if (error != std::errc{}) return std::nullopt;
  line.remove_prefix(static_cast<std::size_t>(end - line.data()));
  auto op = ParseOp(Trimmed(line));
  if (op) op->thread = number;
  return op;
}

std::optional<Program> ParseHeader(std::string_view line) {
  Program program;
  unsigned long long seed = 0, memory = 0;
  if (std::sscanf(std::string(line).c_str(), "program %llu threads=%d devices=%d memory=%llu", &seed, &program.threads,
                  &program.devices, &memory) != 4) {
    return std::nullopt;
  }
  program.seed = seed;
  program.memory = memory;
  return program;
}

}  // namespace

std::string Text(const Op& op) {
  std::string text;
  std::string_view pattern = kTexts[static_cast<std::size_t>(op.kind)];
  std::size_t index = 0;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '%') {
      text += Argument(pattern[++i], op.args[index++]);
    } else {
      text += pattern[i];
    }
  }
  return text;
}

const std::string& ArgumentKinds(OpKind kind) {
  static const std::array<std::string, kOpKinds> kinds = [] {
    std::array<std::string, kOpKinds> all;
    for (std::size_t k = 0; k < kOpKinds; ++k) {
      for (std::size_t i = 0; i + 1 < kTexts[k].size(); ++i) {
        if (kTexts[k][i] == '%') all[k] += kTexts[k][i + 1];
      }
    }
    return all;
  }();
  return kinds[static_cast<std::size_t>(kind)];
}

void Print(const Program& program, std::ostream& out) {
  out << "program " << program.seed << " threads=" << program.threads << " devices=" << program.devices
      << " memory=" << program.memory << '\n';
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    out << (i < 9 ? "    " : i < 99 ? "   " : "  ") << i + 1 << "  t" << op.thread << "  " << Text(op) << ";\n";
  }
}

std::vector<Program> Parse(std::istream& in) {
  std::vector<Program> programs;
  std::string text;
  for (int number = 1; std::getline(in, text); ++number) {
    const std::string_view line = Trimmed(text);
    if (line.empty()) continue;
    if (const auto header = ParseHeader(line)) {
      programs.push_back(*header);
      continue;
    }
    const auto op = ParseLine(line);
    if (!op || programs.empty() || op->thread < 0 || op->thread >= programs.back().threads) {
      throw std::runtime_error("line " + std::to_string(number) + " is no operation of a program: " + text);
    }
    programs.back().ops.push_back(*op);
  }
  return programs;
}

}  // namespace cuheap::campaigns
