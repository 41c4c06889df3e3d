// The options of options.inc: a struct with one field each, and the parser that fills it from texts.
//
// Header-only and without allocation, since the preload library parses its options inside a driver call; the command
// includes it too, to refuse a bad value before the program starts. Texts are referenced, not copied.
#ifndef CUHEAP_INTERPOSE_OPTIONS_OPTION_PARSE_H_
#define CUHEAP_INTERPOSE_OPTIONS_OPTION_PARSE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

namespace cuheap::options {

using Text = std::string_view;
using Flag = bool;
using Number = std::uint64_t;
enum class Mode { kDefault, kPool, kObserve };
enum class Barrier { kAuto, kAlways, kNever };
// A rule of safety that tests switch off, to show that they would notice (docs/safety.md).
enum class Rule {
  kNone,
  kWait,
  kDeadline,
  kRescue,
  kReleases,
  kContextCheck,
  kPassThrough,
  kCapture,
  kRange,
  kFork,
  kExit
};
using Bytes = std::uint64_t;
using Byte = std::int16_t;  // -1: off

// The least and greatest value of an option that is a number; the arguments may be left out in the table.
struct Range {
  std::uint64_t least = 0;
  std::uint64_t greatest = std::numeric_limits<std::uint64_t>::max();
};

// Each parser: true if the text was understood; otherwise *remedy says what would be.
inline bool Parse(std::string_view text, Range, Text* value, const char**) {
  *value = text;
  return true;
}

inline bool Parse(std::string_view text, Range, Flag* value, const char** remedy) {
  for (const std::string_view yes : {"1", "yes", "on", "true"}) {
    if (text == yes) return *value = true, true;
  }
  for (const std::string_view no : {"0", "no", "off", "false"}) {
    if (text == no) return *value = false, true;
  }
  *remedy = "use 0 or 1";
  return false;
}

inline bool Parse(std::string_view text, Range, Mode* value, const char** remedy) {
  if (text == "default") return *value = Mode::kDefault, true;
  if (text == "pool") return *value = Mode::kPool, true;
  if (text == "observe") return *value = Mode::kObserve, true;
  *remedy = "use default, pool or observe";
  return false;
}

inline bool Parse(std::string_view text, Range, Barrier* value, const char** remedy) {
  if (text == "auto") return *value = Barrier::kAuto, true;
  if (text == "always") return *value = Barrier::kAlways, true;
  if (text == "never") return *value = Barrier::kNever, true;
  *remedy = "use auto, always or never";
  return false;
}

inline bool Parse(std::string_view text, Range, Rule* value, const char** remedy) {
  constexpr std::string_view kNames[] = {"none",         "wait",    "deadline", "rescue", "releases", "context-check",
                                         "pass-through", "capture", "range",    "fork",   "exit"};
  int number = 0;
  for (const std::string_view name : kNames) {
    if (text == name) return *value = static_cast<Rule>(number), true;
    ++number;
  }
  *remedy = "use none, or a rule that docs/safety.md names";
  return false;
}

namespace internal {
// Digits, at least one, without overflow, then the rest of the text.
inline bool Digits(std::string_view text, std::uint64_t* value, std::string_view* rest) {
  std::size_t used = 0;
  *value = 0;
  while (used < text.size() && text[used] >= '0' && text[used] <= '9') {
    const std::uint64_t digit = static_cast<std::uint64_t>(text[used] - '0');
    if (*value > (std::numeric_limits<std::uint64_t>::max() - digit) / 10) return false;
    *value = *value * 10 + digit;
    ++used;
  }
  *rest = text.substr(used);
  return used != 0;
}
}  // namespace internal

inline bool ParseNumber(std::string_view text, Range range, std::uint64_t* value, const char** remedy) {
  std::string_view rest;
  std::uint64_t number = 0;
  if (!internal::Digits(text, &number, &rest) || !rest.empty()) {
    *remedy = "use a whole number";
    return false;
  }
  if (number < range.least || number > range.greatest) {
    *remedy = "the number is out of range";
    return false;
  }
  *value = number;
  return true;
}

// 0 to 255, decimal or as 0xff; or off.
inline bool Parse(std::string_view text, Range, Byte* value, const char** remedy) {
  const bool hexadecimal = text.starts_with("0x") || text.starts_with("0X");
  const std::string_view digits = hexadecimal ? text.substr(2) : text;
  int number = 0;
  bool understood = !digits.empty() && digits.size() <= 3;
  for (const char c : digits.substr(0, 3)) {
    const bool letter = hexadecimal && (c | 0x20) >= 'a' && (c | 0x20) <= 'f';
    understood = understood && (letter || (c >= '0' && c <= '9'));
    number = number * (hexadecimal ? 16 : 10) + (letter ? (c | 0x20) - 'a' + 10 : c - '0');
  }
  if (text == "off") return *value = -1, true;
  if (understood && number <= 255) return *value = static_cast<Byte>(number), true;
  *remedy = "use a number from 0 to 255, such as 0 or 0xff, or off";
  return false;
}

inline bool ParseBytes(std::string_view text, Range range, std::uint64_t* value, const char** remedy) {
  std::string_view rest;
  std::uint64_t number = 0;
  unsigned shift = 0;
  bool understood = internal::Digits(text, &number, &rest);
  if (understood && !rest.empty()) {
    switch (rest.front() | 0x20) {  // ASCII lower case
      case 'k':
        shift = 10;
        break;
      case 'm':
        shift = 20;
        break;
      case 'g':
        shift = 30;
        break;
      default:
        understood = false;
    }
    const std::string_view tail = rest.substr(1);
    understood = understood && (tail.empty() || tail == "b" || tail == "B" || tail == "iB") &&
                 number <= (std::numeric_limits<std::uint64_t>::max() >> shift);
  }
  if (!understood) {
    *remedy = "use a number of bytes, such as 64m or 1g";
    return false;
  }
  number <<= shift;
  if (number < range.least || number > range.greatest) {
    *remedy = "the number of bytes is out of range";
    return false;
  }
  *value = number;
  return true;
}

enum class Kind { kText, kFlag, kNumber, kBytes, kByte, kMode, kBarrier, kRule };

struct Description {
  Kind kind;
  const char* variable;
  const char* default_value;
  const char* help;
  Range range;
};

inline constexpr Description kDescriptions[] = {
#define OPTION(type, field, variable, default_value, help, ...) \
  {Kind::k##type, variable, default_value, help, Range{__VA_ARGS__}},
#include "interpose/options/options.inc"
#undef OPTION
};

struct Options {
#define OPTION(type, field, variable, default_value, help, ...) type field{};
#include "interpose/options/options.inc"
#undef OPTION
};

// Number and Bytes are one C++ type, so the kind chooses.
template <class Value>
bool ParseAs(Kind kind, std::string_view text, Range range, Value* value, const char** remedy) {
  if constexpr (std::numeric_limits<Value>::is_integer && sizeof(Value) == sizeof(std::uint64_t)) {
    return kind == Kind::kBytes ? ParseBytes(text, range, value, remedy) : ParseNumber(text, range, value, remedy);
  } else {
    return Parse(text, range, value, remedy);
  }
}

struct Rejection {
  const char* variable = nullptr;  // null: everything was understood
  std::string_view value;
  const char* remedy = "";
};

// Fills *options; lookup(variable) gives the text or null (as getenv). Stops at the first value that is not understood.
template <class Lookup>
Rejection ParseAll(Lookup&& lookup, Options* options) {
  Rejection rejection;
  const auto one = [&](Kind kind, const char* variable, const char* default_value, Range range, auto* value) {
    if (rejection.variable != nullptr) return;
    const char* given = lookup(variable);
    const std::string_view text = given != nullptr && *given != '\0' ? given : default_value;
    if (!ParseAs(kind, text, range, value, &rejection.remedy)) {
      rejection.variable = variable;
      rejection.value = text;
    }
  };
#define OPTION(type, field, variable, default_value, help, ...) \
  one(Kind::k##type, variable, default_value, Range{__VA_ARGS__}, &options->field);
#include "interpose/options/options.inc"
#undef OPTION
  return rejection;
}

// True if the text is a value of the option that the description is of; *remedy says what would be.
inline bool Valid(const Description& description, std::string_view text, const char** remedy) {
  switch (description.kind) {
    case Kind::kText:
      return true;
    case Kind::kFlag: {
      Flag value;
      return Parse(text, description.range, &value, remedy);
    }
    case Kind::kNumber: {
      Number value;
      return ParseNumber(text, description.range, &value, remedy);
    }
    case Kind::kBytes: {
      Bytes value;
      return ParseBytes(text, description.range, &value, remedy);
    }
    case Kind::kByte: {
      Byte value;
      return Parse(text, description.range, &value, remedy);
    }
    case Kind::kMode: {
      Mode value;
      return Parse(text, description.range, &value, remedy);
    }
    case Kind::kBarrier: {
      Barrier value;
      return Parse(text, description.range, &value, remedy);
    }
    case Kind::kRule: {
      Rule value;
      return Parse(text, description.range, &value, remedy);
    }
  }
  return false;
}

}  // namespace cuheap::options

#endif  // CUHEAP_INTERPOSE_OPTIONS_OPTION_PARSE_H_
