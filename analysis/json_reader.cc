#include "analysis/json_reader.h"

#include <cstdio>
#include <cstring>
#include <utility>

namespace cuheap::analysis {
namespace {

constexpr std::size_t kBufferBytes = 64u << 10;
constexpr std::size_t kMaxDepth = 128;              // a deeper text is an attack on the stack, not a snapshot
constexpr std::size_t kMaxStringBytes = 16u << 20;  // names of functions are the longest strings of a snapshot
// What goes on without end is no snapshot: such a text fails in its first bytes, whatever its size.
constexpr std::size_t kMaxSpaceBytes = 1u << 20;
constexpr std::size_t kMaxDigits = 4096;
constexpr std::size_t kShownLevels = 8;  // of a path, from either end

std::string Shown(int character) {
  if (character < 0x20 || character > 0x7E) {
    char text[16];
    std::snprintf(text, sizeof(text), "byte 0x%02x", static_cast<unsigned>(character));
    return text;
  }
  return std::string("'") + static_cast<char>(character) + "'";
}

bool IsDigit(int character) { return character >= '0' && character <= '9'; }

void AppendUtf8(std::uint32_t code, std::string& text) {
  const auto put = [&](std::uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

}  // namespace

JsonReader::JsonReader(TextSource& source) : source_(source), buffer_(new char[kBufferBytes]) {}

bool JsonReader::Refill() {
  if (at_end_) return false;
  base_ += end_;
  position_ = 0;
  end_ = source_.Read(buffer_.get(), kBufferBytes);
  at_end_ = end_ == 0;
  return end_ > 0;
}

std::string JsonReader::Path() const {
  std::string path = "$";
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    if (i == kShownLevels && levels_.size() > 2 * kShownLevels) {
      path += "...";
      i = levels_.size() - kShownLevels;
    }
    const Level& level = levels_[i];
    if (level.array) {
      if (level.count > 0) path += "[" + std::to_string(level.count - 1) + "]";
    } else if (level.count > 0) {
      path += "." + level.name.substr(0, 64);
    }
  }
  return path;
}

bool JsonReader::Fail(const std::string& problem) {
  if (!ok()) return false;
  problem_ = problem;
  place_ = "byte " + std::to_string(base_ + position_) + " (" + Path() + ")";
  return false;
}

// An error in the text itself: if the text ends here, that is what is wrong.
bool JsonReader::Syntax(const std::string& problem) {
  if (!Fail(problem) && Peek() >= 0) return false;
  if (!source_.error().empty()) {
    problem_ = source_.error();
  } else if (base_ == 0) {
    problem_ = "the file is empty";
  } else {
    cut_off_ = true;
    problem_ = "the text ends in the middle";
  }
  return false;
}

void JsonReader::SkipSpace() {
  std::size_t bytes = 0;
  for (int c = Peek(); c == ' ' || c == '\n' || c == '\t' || c == '\r'; c = Peek()) {
    if (++bytes > kMaxSpaceBytes) {
      Syntax("more than " + std::to_string(kMaxSpaceBytes) + " bytes of white space");
      return;
    }
    Advance();
  }
}

bool JsonReader::Expect(char wanted, const char* what) {
  const int c = Peek();
  if (c != wanted) return Syntax("expected " + std::string(what) + ", found " + Shown(c));
  Advance();
  return true;
}

bool JsonReader::Enter(char bracket, bool array) {
  if (!ok()) return false;
  SkipSpace();
  if (!Expect(bracket, array ? "an array ('[')" : "an object ('{')")) return false;
  if (levels_.size() >= kMaxDepth) return Syntax("nested deeper than " + std::to_string(kMaxDepth) + " levels");
  levels_.push_back({array, 0, ""});
  return true;
}

bool JsonReader::EnterObject() { return Enter('{', false); }
bool JsonReader::EnterArray() { return Enter('[', true); }

// Consumes the comma before a further part (more = true), or the closing bracket.
bool JsonReader::NextPart(char bracket, bool& more) {
  if (!ok()) return false;
  SkipSpace();
  Level& level = levels_.back();
  const int c = Peek();
  more = c != bracket;
  if (!more) {
    Advance();
    levels_.pop_back();
    return true;
  }
  if (level.count > 0) {
    if (c != ',') return Syntax("expected ',' or '" + std::string(1, bracket) + "', found " + Shown(c));
    Advance();
    SkipSpace();
  }
  return true;
}

bool JsonReader::NextMember(std::string& name) {
  bool more = false;
  if (!NextPart('}', more) || !more) return false;
  if (Peek() != '"') return Syntax("expected a name in quotes, found " + Shown(Peek()));
  if (!ReadText(&name)) return false;
  levels_.back().name = name;
  ++levels_.back().count;
  SkipSpace();
  return Expect(':', "':'");
}

bool JsonReader::NextElement() {
  bool more = false;
  if (!NextPart(']', more) || !more) return false;
  ++levels_.back().count;
  return true;
}

bool JsonReader::Read(std::string& value) {
  if (!ok()) return false;
  SkipSpace();
  if (Peek() != '"') return Syntax("expected a string, found " + Shown(Peek()));
  return ReadText(&value);
}

bool JsonReader::Read(bool& value) {
  if (!ok()) return false;
  SkipSpace();
  const int c = Peek();
  if (c != 't' && c != 'f') return Syntax("expected true or false, found " + Shown(c));
  value = c == 't';
  return SkipWord(value ? "true" : "false");
}

bool JsonReader::ReadDigits(std::uint64_t& value) {
  int c = Peek();
  if (!IsDigit(c)) return Syntax("expected an integer, found " + Shown(c));
  value = static_cast<std::uint64_t>(c - '0');
  Advance();
  if (value == 0) return true;  // no digit may follow a leading zero
  for (c = Peek(); IsDigit(c); c = Peek()) {
    const auto digit = static_cast<std::uint64_t>(c - '0');
    if (value > (UINT64_MAX - digit) / 10) return Syntax("the number is larger than 64 bits hold");
    value = value * 10 + digit;
    Advance();
  }
  return true;
}

bool JsonReader::EndOfInteger() {
  const int c = Peek();
  if (IsDigit(c)) return Syntax("a number begins with 0");
  if (c == '.' || c == 'e' || c == 'E') return Syntax("expected an integer, found a fraction or an exponent");
  return true;
}

bool JsonReader::ReadUnsigned(std::uint64_t& value, std::uint64_t limit) {
  if (!ok()) return false;
  SkipSpace();
  if (Peek() == '-') return Syntax("expected a number that is not negative");
  if (!ReadDigits(value) || !EndOfInteger()) return false;
  if (value > limit) return Fail(std::to_string(value) + " is too large here (limit " + std::to_string(limit) + ")");
  return true;
}

bool JsonReader::ReadSigned(std::int64_t& value, std::int64_t least, std::int64_t most) {
  if (!ok()) return false;
  SkipSpace();
  const bool negative = Peek() == '-';
  if (negative) Advance();
  std::uint64_t magnitude = 0;
  if (!ReadDigits(magnitude) || !EndOfInteger()) return false;
  const std::uint64_t limit = static_cast<std::uint64_t>(INT64_MAX) + (negative ? 1 : 0);
  if (magnitude > limit) return Syntax("the number does not fit 64 bits with a sign");
  value = static_cast<std::int64_t>(negative ? 0 - magnitude : magnitude);
  if (value < least || value > most) return Fail(std::to_string(value) + " is out of range here");
  return true;
}

bool JsonReader::ReadHex4(std::uint32_t& unit) {
  unit = 0;
  for (int i = 0; i < 4; ++i) {
    const int c = Peek();
    std::uint32_t digit = 0;
    if (IsDigit(c)) {
      digit = static_cast<std::uint32_t>(c - '0');
    } else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')) {
      digit = static_cast<std::uint32_t>((c | 0x20) - 'a' + 10);
    } else {
      return Syntax("\\u needs four hexadecimal digits");
    }
    unit = unit << 4 | digit;
    Advance();
  }
  return true;
}

bool JsonReader::ReadEscape(std::string* value) {
  const int c = Peek();
  constexpr char kFrom[] = "\"\\/bfnrt";
  constexpr char kTo[] = "\"\\/\b\f\n\r\t";
  if (c != 'u') {
    const char* found = c > 0 ? std::strchr(kFrom, c) : nullptr;
    if (found == nullptr) return Syntax("unknown escape in a string");
    Advance();
    if (value != nullptr) value->push_back(kTo[found - kFrom]);
    return true;
  }
  Advance();
  std::uint32_t code = 0;
  if (!ReadHex4(code)) return false;
  if (code >= 0xDC00 && code < 0xE000) return Syntax("the second half of a surrogate pair without the first");
  if (code >= 0xD800 && code < 0xDC00) {
    std::uint32_t low = 0;
    if (!Expect('\\', "the second half of a surrogate pair") || !Expect('u', "the second half of a surrogate pair") ||
        !ReadHex4(low)) {
      return false;
    }
    if (low < 0xDC00 || low >= 0xE000) return Syntax("the first half of a surrogate pair without the second");
    code = 0x10000 + ((code - 0xD800) << 10 | (low - 0xDC00));
  }
  if (value != nullptr) AppendUtf8(code, *value);
  return true;
}

// The bytes of one character after its first one, by table 3-7 of the Unicode standard.
bool JsonReader::ReadUtf8(unsigned char first, std::string* value) {
  int more = 0;
  int least = 0x80, most = 0xBF;
  if (first >= 0xC2 && first <= 0xDF) {
    more = 1;
  } else if (first >= 0xE0 && first <= 0xEF) {
    more = 2;
    if (first == 0xE0) least = 0xA0;
    if (first == 0xED) most = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    more = 3;
    if (first == 0xF0) least = 0x90;
    if (first == 0xF4) most = 0x8F;
  } else {
    return Syntax("a string that is not UTF-8");
  }
  for (; more > 0; --more) {
    const int c = Peek();
    if (c < least || c > most) return Syntax("a string that is not UTF-8");
    if (value != nullptr) value->push_back(static_cast<char>(c));
    Advance();
    least = 0x80;
    most = 0xBF;
  }
  return true;
}

// A string from its opening quote; `value` null: only checked.
bool JsonReader::ReadText(std::string* value) {
  Advance();
  if (value != nullptr) value->clear();
  std::size_t length = 0;
  for (int c = Peek(); c != '"'; c = Peek()) {
    if (c < 0) return Syntax("a string without its closing quote");
    if (c < 0x20) return Syntax("a control character in a string");
    if (++length > kMaxStringBytes) return Syntax("a string longer than " + std::to_string(kMaxStringBytes) + " bytes");
    Advance();
    if (c == '\\') {
      if (!ReadEscape(value)) return false;
      continue;
    }
    if (value != nullptr) value->push_back(static_cast<char>(c));
    if (c >= 0x80 && !ReadUtf8(static_cast<unsigned char>(c), value)) return false;
  }
  Advance();
  return true;
}

bool JsonReader::SkipWord(const char* word) {
  for (; *word != 0; ++word) {
    if (Peek() != *word) return Syntax("expected a JSON value");
    Advance();
  }
  return true;
}

bool JsonReader::SkipDigits() {
  if (!IsDigit(Peek())) return Syntax("expected a digit, found " + Shown(Peek()));
  for (std::size_t digits = 0; IsDigit(Peek()); ++digits) {
    if (digits == kMaxDigits) return Syntax("a number of more than " + std::to_string(kMaxDigits) + " digits");
    Advance();
  }
  return true;
}

bool JsonReader::SkipNumber() {
  if (Peek() == '-') Advance();
  if (Peek() == '0') {
    Advance();
    if (IsDigit(Peek())) return Syntax("a number begins with 0");
  } else if (!SkipDigits()) {
    return false;
  }
  if (Peek() == '.') {
    Advance();
    if (!SkipDigits()) return false;
  }
  if (Peek() == 'e' || Peek() == 'E') {
    Advance();
    if (Peek() == '+' || Peek() == '-') Advance();
    if (!SkipDigits()) return false;
  }
  return true;
}

bool JsonReader::SkipScalar(int first) {
  switch (first) {
    case '"':
      return ReadText(nullptr);
    case 't':
      return SkipWord("true");
    case 'f':
      return SkipWord("false");
    case 'n':
      return SkipWord("null");
    default:
      if (first == '-' || IsDigit(first)) return SkipNumber();
      return Syntax("expected a JSON value, found " + Shown(first));
  }
}

bool JsonReader::Skip() {
  if (!ok()) return false;
  const std::size_t depth = levels_.size();
  do {
    // A value begins here.
    SkipSpace();
    const int c = Peek();
    if (c == '{' || c == '[') {
      if (!Enter(static_cast<char>(c), c == '[')) return false;
    } else if (!SkipScalar(c)) {
      return false;
    }
    // To the next value, through the ends of whatever ends here.
    std::string name;
    while (levels_.size() > depth) {
      if (levels_.back().array ? NextElement() : NextMember(name)) break;
      if (!ok()) return false;
    }
  } while (levels_.size() > depth);
  return true;
}

bool JsonReader::ExpectEnd() {
  if (!ok()) return false;
  SkipSpace();
  if (Peek() >= 0) return Fail("text behind the end of the JSON value");
  if (!source_.error().empty()) return Fail(source_.error());
  return true;
}

}  // namespace cuheap::analysis
