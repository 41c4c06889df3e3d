// The words by which enum values are written in JSON, in reports and in messages. A word never changes its meaning;
// new values get new words at the end.
#ifndef CUHEAP_ANALYSIS_SNAPSHOT_NAMES_H_
#define CUHEAP_ANALYSIS_SNAPSHOT_NAMES_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "analysis/snapshot.h"

namespace cuheap::analysis {

// All the words of an enum: the word of value v is Words<Enum>()[v].
template <typename Enum>
std::span<const std::string_view> Words();
template <>
std::span<const std::string_view> Words<FrameKind>();
template <>
std::span<const std::string_view> Words<AllocationKind>();
template <>
std::span<const std::string_view> Words<Allocator>();
template <>
std::span<const std::string_view> Words<EventType>();
template <>
std::span<const std::string_view> Words<DriverCall>();

// The word of a value; "unknown" for a value outside the enum.
template <typename Enum>
std::string_view ToString(Enum value) {
  const auto words = Words<Enum>();
  const auto index = static_cast<std::size_t>(value);
  return index < words.size() ? words[index] : std::string_view("unknown");
}

// The value of a word, if it is one of this enum's.
template <typename Enum>
std::optional<Enum> FromString(std::string_view word) {
  const auto words = Words<Enum>();
  for (std::size_t index = 0; index < words.size(); ++index) {
    if (words[index] == word) return static_cast<Enum>(index);
  }
  return std::nullopt;
}

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_SNAPSHOT_NAMES_H_
