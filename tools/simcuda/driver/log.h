// SIMCUDA_LOG: one line a driver call, in the order in which the calls took effect. docs/simcuda.md has the grammar.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include "tools/simcuda/driver/cuda_api.h"

namespace simcuda {

class Call;

// The file behind SIMCUDA_LOG. Each line is one write to a descriptor in append mode, so that lines of several
// processes that share a file never mix.
class Log {
 public:
  // An unusable path is reported on stderr and switches the log off. "%p" becomes the process id.
  void Open(const std::string& path);
  bool enabled() const { return descriptor_ >= 0; }
  // Writes `line` and a newline. Call with the driver's lock held: it gives lines their order.
  void Write(const std::string& line);
  // Writes a line "# text", for what happens beside calls: an implicit release, work that ran.
  void Note(const std::string& text);
  uint64_t NextSequence() { return ++sequence_; }

 private:
  int descriptor_ = -1;
  uint64_t sequence_ = 0;
};

// Builds one call's line; the generated entry points use it.
class LogLine {
 public:
  explicit LogLine(const Call& call);

  void Text(const char* key, const char* value);
  void Pointer(const char* key, const volatile void* value) { Pointer(key, reinterpret_cast<uintptr_t>(value)); }
  void Pointer(const char* key, uint64_t value);
  // A value by its type: numbers in decimal, pointers in hexadecimal, structures as "{}".
  template <typename T>
  void Value(const char* key, const T& value) {
    if constexpr (std::is_pointer_v<T>) {
      Pointer(key, reinterpret_cast<uintptr_t>(value));
    } else if constexpr (std::is_enum_v<T> || std::is_integral_v<T>) {
      Number(key, static_cast<int64_t>(value));
    } else if constexpr (std::is_floating_point_v<T>) {
      Real(key, value);
    } else {
      Raw(key, "{}");
    }
  }
  // An output: a handle or address of pointer size at `value`, or a number.
  template <typename T>
  void Hex(const char* key, const T* value) {
    if constexpr (std::is_pointer_v<T>) {
      Pointer(key, reinterpret_cast<uintptr_t>(*value));
    } else {
      Pointer(key, static_cast<uint64_t>(*value));
    }
  }
  template <typename T>
  void Decimal(const char* key, const T& value) {
    Value(key, value);
  }
  // Ends the line with " -> code" and writes it.
  void Result(CUresult result);

 private:
  void Number(const char* key, int64_t value);
  void Real(const char* key, double value);
  void Raw(const char* key, const std::string& value);

  std::string text_;
};

}  // namespace simcuda
