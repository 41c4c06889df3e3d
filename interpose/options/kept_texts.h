// The options' texts, copied out of an environment.
//
// A program may clear its environment, or write over it, before its first CUDA call: what whoever started it asked for
// holds all the same. Header-only, without allocation and locks: filled while the program is being loaded.
#ifndef CUHEAP_INTERPOSE_OPTIONS_KEPT_TEXTS_H_
#define CUHEAP_INTERPOSE_OPTIONS_KEPT_TEXTS_H_

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <string_view>

#include "interpose/options/option_parse.h"

namespace cuheap::options {

class KeptTexts {
 public:
  // A path that is cut here is still too long for the system (PATH_MAX), a value of any other option still wrong.
  static constexpr std::size_t kMaxText = 4096;

  // environment: as environ; null if there is none. Of two entries of one name the first counts, as for getenv.
  void Fill(const char* const* environment) {
    if (environment == nullptr) return;
    for (; *environment != nullptr; ++environment) Keep(*environment);
  }

  // As getenv, for the options.
  const char* operator()(const char* variable) const {
    for (std::size_t i = 0; i < kCount; ++i) {
      if (std::strcmp(kDescriptions[i].variable, variable) == 0) return set_[i] ? texts_[i] : nullptr;
    }
    return nullptr;
  }

 private:
  static constexpr std::size_t kCount = std::size(kDescriptions);

  void Keep(const char* entry) {
    if (std::strncmp(entry, "CUHEAP_", 7) != 0) return;
    const char* equals = std::strchr(entry, '=');
    if (equals == nullptr) return;
    const std::string_view name(entry, static_cast<std::size_t>(equals - entry));
    for (std::size_t i = 0; i < kCount; ++i) {
      if (name == kDescriptions[i].variable && !set_[i]) Copy(equals + 1, i);
    }
  }

  void Copy(const char* text, std::size_t option) {
    const std::size_t size = std::min(std::strlen(text), kMaxText);
    std::memcpy(texts_[option], text, size);
    texts_[option][size] = '\0';
    set_[option] = true;
  }

  // Pages of options that nobody set are never touched.
  bool set_[kCount] = {};
  char texts_[kCount][kMaxText + 1] = {};
};

}  // namespace cuheap::options

#endif  // CUHEAP_INTERPOSE_OPTIONS_KEPT_TEXTS_H_
