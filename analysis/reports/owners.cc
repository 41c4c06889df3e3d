#include "analysis/reports/owners.h"

#include <array>

namespace cuheap::analysis {
namespace {

std::string_view BaseName(std::string_view path) {
  const std::size_t slash = path.find_last_of("/\\");
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// "transformers" of ".../site-packages/transformers/models/llama.py" and of its compiled modules; empty: in no package.
std::string_view PackageOf(std::string_view path) {
  for (const std::string_view folder : {"site-packages", "dist-packages"}) {
    const std::size_t at = path.rfind(folder);
    if (at == std::string_view::npos || at + folder.size() + 1 >= path.size()) continue;
    const std::string_view rest = path.substr(at + folder.size() + 1);
    const std::string_view first = rest.substr(0, rest.find_first_of("/\\"));
    return first.substr(0, first.find('.'));  // a module of one file: "six.py"
  }
  return {};
}

bool IsTorchLibrary(std::string_view name) {
  return name.starts_with("libtorch") || name.starts_with("libc10") || name == "_C.so";
}

Owner OfPackage(const CodeLine& line) {
  const std::string_view path = line.file.empty() || !line.module.empty() ? line.module : line.file;
  if (const std::string_view package = PackageOf(path); !package.empty())
    return {OwnerKind::kPackage, std::string(package)};
  if (IsTorchLibrary(BaseName(line.module)) || line.module.empty()) return {OwnerKind::kPackage, "torch"};
  return {OwnerKind::kPackage, std::string(BaseName(line.module))};
}

}  // namespace

std::string_view Word(OwnerKind kind) {
  constexpr std::array<std::string_view, 5> kWords = {"program", "package", "cuda_library", "system", "unknown"};
  return kWords.at(static_cast<std::size_t>(kind));
}

Owner OwnerOf(const LineTable& lines, std::uint32_t stack) {
  if (const std::string& library = lines.LibraryOfStack(stack); !library.empty())
    return {OwnerKind::kCudaLibrary, library};
  const CodeLine& line = lines.line(lines.OfStack(stack));
  if (line.basis == LineBasis::kNoStack) return {OwnerKind::kUnknown, "(no stack)"};
  switch (line.module_class) {
    case ModuleClass::kPackage:
      return OfPackage(line);
    case ModuleClass::kCudaLibrary:
      return {OwnerKind::kCudaLibrary, std::string(BaseName(line.module))};
    case ModuleClass::kUser:
    case ModuleClass::kNone:
      if (line.module.empty()) return {OwnerKind::kProgram, "Python code"};
      return {OwnerKind::kProgram, std::string(BaseName(line.module))};
    case ModuleClass::kInterpreter:
    case ModuleClass::kCudaRuntime:
    case ModuleClass::kSystem:
    case ModuleClass::kCuheap:
      break;
  }
  return {OwnerKind::kSystem,
          line.module.empty() ? std::string("Python's library") : std::string(BaseName(line.module))};
}

}  // namespace cuheap::analysis
