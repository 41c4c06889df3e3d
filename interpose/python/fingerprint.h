// What tells code objects apart, see code_table.h.
#ifndef CUHEAP_INTERPOSE_PYTHON_FINGERPRINT_H_
#define CUHEAP_INTERPOSE_PYTHON_FINGERPRINT_H_

#include <cstdint>
#include <cstring>

#include "interpose/python/interpreter.h"
#include "interpose/python/reading.h"

namespace cuheap::python {

inline std::uint64_t Mix(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0xFF51AFD7ED558CCD;
  return hash ^ (hash >> 32);
}

// The first and last 16 bytes of `bytes` bytes at `data` (all of them where they are so few); they overlap if need be.
template <typename Reader>
[[gnu::no_sanitize_address, gnu::no_sanitize_thread]] inline bool MixEnds(Reader& reader, std::uint64_t data,
                                                                          std::uint64_t bytes, std::uint64_t& hash) {
  // The objects end with a NUL and lie in blocks of at least 8 bytes: 8 bytes from the beginning can always be read.
  if (!IsPlausible(data) || !reader.MayRead(data, bytes < 8 ? 8 : bytes)) return false;
  const auto word = [&](std::uint64_t at) {
    std::uint64_t value;
    std::memcpy(&value, reinterpret_cast<const void*>(data + at), sizeof(value));
    return value;
  };
  if (bytes < 8) {
    hash = Mix(hash, bytes == 0 ? 0 : word(0) << (64 - 8 * bytes));
    return true;
  }
  hash = Mix(Mix(hash, word(0)), word(bytes - 8));
  if (bytes >= 16) hash = Mix(Mix(hash, word(8)), word(bytes - 16));
  return true;
}

// A string's characters: where they begin and how many bytes they take; false: not in one piece (which no compiler
// makes), or no string.
struct StringBytes {
  std::uint64_t data = 0;
  std::uint64_t bytes = 0;
  unsigned kind = 0;  // bytes a character
};
template <typename Reader>
inline bool ReadString(Reader& reader, const Interpreter& interpreter, std::uint64_t object, StringBytes& string) {
  std::uint64_t type, length;
  std::uint32_t state;
  if (!Load(reader, object + kObjectType, type) || type != interpreter.string_type ||
      !Load(reader, object + kStringLength, length) || !Load(reader, object + kStringState, state)) {
    return false;
  }
  const bool compact = (state & 0x20) != 0, ascii = (state & 0x40) != 0;
  string.kind = (state >> 2) & 7;
  if (!compact || length > (std::uint64_t{1} << 32) || (string.kind != 1 && string.kind != 2 && string.kind != 4)) {
    return false;
  }
  string.data = object + (ascii ? interpreter.layout->string_ascii : interpreter.layout->string_compact);
  string.bytes = length * string.kind;
  return true;
}

template <typename Reader>
inline bool ReadBytes(Reader& reader, const Interpreter& interpreter, std::uint64_t object, StringBytes& string) {
  std::uint64_t type;
  if (!Load(reader, object + kObjectType, type) || type != interpreter.bytes_type ||
      !Load(reader, object + kObjectSize, string.bytes) || string.bytes > (std::uint64_t{1} << 32)) {
    return false;
  }
  string.data = object + kBytesData;
  string.kind = 1;
  return true;
}

// Not 0. False: this is no code object of the interpreter.
template <typename Reader>
inline bool FingerprintOf(Reader& reader, const Interpreter& interpreter, std::uint64_t code, std::uint64_t& result) {
  const Layout& layout = *interpreter.layout;
  std::uint64_t type, filename, name, line_table;
  std::uint32_t first_line;
  if (!Load(reader, code + kObjectType, type) || type != interpreter.code_type ||
      !Load(reader, code + layout.code_filename, filename) || !Load(reader, code + layout.code_name, name) ||
      !Load(reader, code + layout.code_line_table, line_table) ||
      !Load(reader, code + layout.code_first_line, first_line)) {
    return false;
  }
  StringBytes file_string, name_string, table;
  if (!ReadString(reader, interpreter, filename, file_string) || !ReadString(reader, interpreter, name, name_string) ||
      !ReadBytes(reader, interpreter, line_table, table)) {
    return false;
  }
  std::uint64_t hash = Mix(Mix(0x9E3779B97F4A7C15, code), filename);
  hash = Mix(Mix(hash, name), line_table);
  hash = Mix(Mix(hash, first_line | (file_string.bytes << 32)), name_string.bytes | (table.bytes << 32));
  if (!MixEnds(reader, file_string.data, file_string.bytes, hash) ||
      !MixEnds(reader, name_string.data, name_string.bytes, hash) || !MixEnds(reader, table.data, table.bytes, hash)) {
    return false;
  }
  result = hash == 0 ? 1 : hash;
  return true;
}

}  // namespace cuheap::python

#endif  // CUHEAP_INTERPOSE_PYTHON_FINGERPRINT_H_
