// What tells code objects apart, see code_table.h.
#ifndef CUHEAP_INTERPOSE_PYTHON_FINGERPRINT_H_
#define CUHEAP_INTERPOSE_PYTHON_FINGERPRINT_H_

#include <cstdint>
#include <cstring>

#include "interpose/python/interpreter.h"
#include "interpose/python/reading.h"

namespace cuheap::python {

// Both halves of a product, folded: the parts of a fingerprint are independent of each other, so that the processor
// computes them at once.
inline std::uint64_t Fold(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

// What the content of an object contributes: its first and its last 16 bytes (they overlap in short ones).
struct Ends {
  std::uint64_t first[2];
  std::uint64_t last[2];
};

// The objects end with a NUL and lie in blocks of at least 8 bytes: 8 bytes from `data` can always be read.
template <typename Reader>
[[gnu::no_sanitize_address, gnu::no_sanitize_thread]] inline bool ReadEnds(Reader& reader, std::uint64_t data,
                                                                           std::uint64_t bytes, Ends& ends) {
  if (!IsPlausible(data) || !reader.MayRead(data, bytes < 8 ? 8 : bytes)) return false;
  const auto word = [&](std::uint64_t at) {
    std::uint64_t value;
    std::memcpy(&value, reinterpret_cast<const void*>(data + at), sizeof(value));
    return value;
  };
  if (bytes < 8) {
    ends.first[0] = bytes == 0 ? 0 : word(0) << (64 - 8 * bytes);
    ends.first[1] = ends.last[0] = ends.last[1] = 0;
  } else if (bytes < 16) {
    ends.first[0] = word(0);
    ends.last[1] = word(bytes - 8);
    ends.first[1] = ends.last[0] = 0;
  } else {
    ends.first[0] = word(0);
    ends.first[1] = word(8);
    ends.last[0] = word(bytes - 16);
    ends.last[1] = word(bytes - 8);
  }
  return true;
}

// The object is of this class or of one derived from it: code objects take names of classes derived from str.
template <typename Reader>
inline bool IsOf(Reader& reader, std::uint64_t object, std::uint64_t wanted, std::uint64_t subclass_flag) {
  std::uint64_t type, flags;
  if (!Load(reader, object + kObjectType, type)) return false;
  if (type == wanted) [[likely]] {
    return true;
  }
  return Load(reader, type + kTypeFlags, flags) && (flags & subclass_flag) != 0;
}

// A string's characters: where they begin and how many bytes they take; false: no string.
struct StringBytes {
  std::uint64_t data = 0;
  std::uint64_t bytes = 0;
  unsigned kind = 0;  // bytes a character
};
template <typename Reader>
inline bool ReadString(Reader& reader, const Interpreter& interpreter, std::uint64_t object, StringBytes& string) {
  std::uint64_t length;
  std::uint32_t state;
  if (!IsOf(reader, object, interpreter.string_type, kStringSubclass) ||
      !Load(reader, object + kStringLength, length) || !Load(reader, object + kStringState, state)) {
    return false;
  }
  const bool compact = (state & 0x20) != 0, ascii = (state & 0x40) != 0;
  string.kind = (state >> 2) & 7;
  if (length > (std::uint64_t{1} << 32) || (string.kind != 1 && string.kind != 2 && string.kind != 4)) {
    return false;
  }
  // A string of a derived class is never compact: the pointer to its characters comes behind the compact structure.
  if (!compact) {
    if (!Load(reader, object + interpreter.layout->string_compact, string.data)) return false;
  } else {
    string.data = object + (ascii ? interpreter.layout->string_ascii : interpreter.layout->string_compact);
  }
  string.bytes = length * string.kind;
  return true;
}

template <typename Reader>
inline bool ReadBytes(Reader& reader, const Interpreter& interpreter, std::uint64_t object, StringBytes& string) {
  if (!IsOf(reader, object, interpreter.bytes_type, kBytesSubclass) ||
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
  Ends file_ends, name_ends, table_ends;
  if (!ReadEnds(reader, file_string.data, file_string.bytes, file_ends) ||
      !ReadEnds(reader, name_string.data, name_string.bytes, name_ends) ||
      !ReadEnds(reader, table.data, table.bytes, table_ends)) {
    return false;
  }
  // Odd numbers without a pattern, one for each word.
  std::uint64_t hash = Fold(code ^ 0x9E3779B97F4A7C15, filename ^ 0xBF58476D1CE4E5B9);
  hash += Fold(name ^ 0x94D049BB133111EB, line_table ^ 0xD6E8FEB86659FD93);
  hash += Fold((first_line | (file_string.bytes << 32)) ^ 0xA0761D6478BD642F,
               (name_string.bytes | (table.bytes << 32)) ^ 0xE7037ED1A0B428DB);
  // Files of one program begin alike and end differently.
  hash += Fold(file_ends.first[0] ^ file_ends.last[0] ^ 0x8EBC6AF09C88C6E3, file_ends.last[1] ^ 0x589965CC75374CC3);
  hash += Fold(name_ends.first[0] ^ 0x1D8E4E27C47D124F, name_ends.last[1] ^ 0xEB44ACCAB455D165);
  hash += Fold(name_ends.first[1] ^ 0x9C6E6877736C46E3, name_ends.last[0] ^ 0xC2B2AE3D27D4EB4F);
  hash += Fold(table_ends.first[0] ^ 0xFF51AFD7ED558CCD, table_ends.last[1] ^ 0xC4CEB9FE1A85EC53);
  hash += Fold(table_ends.first[1] ^ 0x2545F4914F6CDD1D, table_ends.last[0] ^ 0xDA942042E4DD58B5);
  hash ^= hash >> 32;
  result = hash == 0 ? 1 : hash;
  return true;
}

}  // namespace cuheap::python

#endif  // CUHEAP_INTERPOSE_PYTHON_FINGERPRINT_H_
