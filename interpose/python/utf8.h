// Python's characters (1, 2 or 4 bytes each, code points) as UTF-8.
#ifndef CUHEAP_INTERPOSE_PYTHON_UTF8_H_
#define CUHEAP_INTERPOSE_PYTHON_UTF8_H_

#include <cstddef>
#include <cstdint>

namespace cuheap::python {

struct Utf8Result {
  std::size_t bytes = 0;
  bool cut = false;  // not all characters found room; never in the middle of one
};

// kind: bytes a character, 1, 2 or 4. What is no character (surrogates, which stand for bytes that are no UTF-8 in file
// names; numbers above 0x10FFFF) becomes U+FFFD.
inline Utf8Result ToUtf8(const void* characters, unsigned kind, std::size_t count, char* out, std::size_t room) {
  Utf8Result result;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t c = kind == 1   ? static_cast<const std::uint8_t*>(characters)[i]
                      : kind == 2 ? static_cast<const std::uint16_t*>(characters)[i]
                                  : static_cast<const std::uint32_t*>(characters)[i];
    if ((c >= 0xD800 && c < 0xE000) || c > 0x10FFFF) c = 0xFFFD;
    const unsigned size = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    if (room - result.bytes < size) {
      result.cut = true;
      return result;
    }
    char* at = out + result.bytes;
    if (size == 1) {
      at[0] = static_cast<char>(c);
    } else {
      constexpr unsigned kLead[] = {0, 0, 0xC0, 0xE0, 0xF0};
      for (unsigned k = size - 1; k > 0; --k, c >>= 6) at[k] = static_cast<char>(0x80 | (c & 0x3F));
      at[0] = static_cast<char>(kLead[size] | c);
    }
    result.bytes += size;
  }
  return result;
}

}  // namespace cuheap::python

#endif  // CUHEAP_INTERPOSE_PYTHON_UTF8_H_
