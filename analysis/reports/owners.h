// Whose code memory is charged to: the program, an installed package, a CUDA library.
#ifndef CUHEAP_ANALYSIS_REPORTS_OWNERS_H_
#define CUHEAP_ANALYSIS_REPORTS_OWNERS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "analysis/reports/lines.h"

namespace cuheap::analysis {

enum class OwnerKind : std::uint8_t {
  kProgram,      // a module of the user's, or Python code that no package installed
  kPackage,      // an installed Python package
  kCudaLibrary,  // asked for itself: a workspace
  kSystem,       // a library of the system's, Python's own library
  kUnknown,      // no stack
};
std::string_view Word(OwnerKind kind);  // "program", "package", "cuda_library", "system", "unknown"

struct Owner {
  OwnerKind kind = OwnerKind::kUnknown;
  std::string name;  // "libtrain.so", "transformers", "libcublas.so.13", "Python code"
  friend auto operator<=>(const Owner&, const Owner&) = default;
};

// Whoever the line that the stack is charged to belongs to; of memory that a CUDA library asked for, that library.
Owner OwnerOf(const LineTable& lines, std::uint32_t stack);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_OWNERS_H_
