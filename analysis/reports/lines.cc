#include "analysis/reports/lines.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <map>
#include <optional>
#include <tuple>

#include "analysis/reports/framework_frames.h"

namespace cuheap::analysis {
namespace {

bool StartsWithAny(std::string_view text, std::initializer_list<std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view prefix) { return text.starts_with(prefix); });
}

bool ContainsAny(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return text.find(part) != std::string_view::npos; });
}

std::string_view BaseName(std::string_view path) {
  const std::size_t slash = path.find_last_of("/\\");
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// The CUDA runtime linked statically has no debug information, so that its functions lie nameless-lined in the user's
// module; by name they can be told from the user's.
bool IsStaticRuntimeFunction(std::string_view function) {
  if (StartsWithAny(function, {"cudart::", "__cudart", "libcudart_static_", "__cuda", "cuMem"})) return true;
  return function.size() > 4 && function.starts_with("cuda") && function[4] >= 'A' && function[4] <= 'Z';
}

bool IsPythonLibrary(std::string_view file) {
  if (file.starts_with("<frozen") || file.starts_with("<__array_function__")) return true;
  const std::size_t lib = file.find("/lib/python3");
  return lib != std::string_view::npos && file.find("packages/") == std::string_view::npos;
}

class Chooser {
 public:
  Chooser(const Snapshot& snapshot, const LineRule& rule) : snapshot_(snapshot), rule_(rule) {
    module_classes_.reserve(snapshot.modules.size());
    for (const Module& module : snapshot.modules) module_classes_.push_back(ClassifyModule(module.path));
  }

  ModuleClass ClassOf(const Frame& frame) const {
    if (frame.kind == FrameKind::kPython) {
      const std::string_view file = Text(frame.file);
      if (ContainsAny(file, {"/site-packages/", "/dist-packages/"}) || IsTorchSource(file))
        return ModuleClass::kPackage;
      return IsPythonLibrary(file) ? ModuleClass::kSystem : ModuleClass::kUser;
    }
    return frame.module == 0 || frame.module > module_classes_.size() ? ModuleClass::kNone
                                                                      : module_classes_[frame.module - 1];
  }

  struct Choice {
    std::size_t position;  // in the stack
    LineBasis basis;
    std::string_view name = {};  // what the line is called, if not by the frame's function; lives forever
  };
  // What the rule chooses; none: no stack.
  std::optional<Choice> Choose(const Stack& stack) const {
    if (const auto workspace = Workspace(stack)) return workspace;
    for (const ModuleClass wanted : {ModuleClass::kUser, ModuleClass::kPackage, ModuleClass::kCudaLibrary}) {
      if (wanted == ModuleClass::kPackage) {
        if (const auto position = PackageLine(stack)) return Choice{*position, LineBasis::kLine};
        if (const auto position = TorchOperator(stack)) return Choice{*position, LineBasis::kFunction};
      }
      for (const LineBasis basis : {LineBasis::kLine, LineBasis::kFunction, LineBasis::kModule}) {
        const std::size_t position = Next(stack, 0, wanted, basis);
        if (position != stack.frames.size()) return Choice{position, basis};
      }
    }
    return std::nullopt;
  }

  // The caller of the chosen frame, see LineTable::CallerOfStack.
  std::optional<Choice> ChooseCaller(const Stack& stack, const Choice& chosen) const {
    const Frame& inner = snapshot_.frames[stack.frames[chosen.position]];
    std::size_t position = chosen.position;
    do {
      position = Next(stack, position + 1, ModuleClass::kUser, LineBasis::kLine);
      if (position == stack.frames.size()) return std::nullopt;
    } while (snapshot_.frames[stack.frames[position]].line == inner.line &&
             Text(snapshot_.frames[stack.frames[position]].file) == Text(inner.file));
    return Choice{position, LineBasis::kLine};
  }

  std::string_view Text(std::uint32_t string) const {
    return string < snapshot_.strings.size() ? std::string_view(snapshot_.strings[string]) : std::string_view();
  }

  std::string_view ModulePath(const Frame& frame) const {
    return frame.module == 0 || frame.module > snapshot_.modules.size() ? std::string_view()
                                                                        : snapshot_.modules[frame.module - 1].path;
  }

  // File name of the CUDA library that is the first beyond the CUDA runtime; empty if it is somebody else.
  std::string LibraryOf(const Stack& stack) const {
    if (const auto workspace = Workspace(stack))
      return std::string(workspace->name.substr(0, workspace->name.find(' ')));
    for (const std::uint32_t index : stack.frames) {
      if (index >= snapshot_.frames.size()) continue;
      const Frame& frame = snapshot_.frames[index];
      const ModuleClass module_class = ClassOf(frame);
      if (frame.kind == FrameKind::kNone || module_class == ModuleClass::kCuheap ||
          module_class == ModuleClass::kCudaRuntime)
        continue;
      return module_class == ModuleClass::kCudaLibrary ? std::string(BaseName(ModulePath(frame))) : std::string();
    }
    return {};
  }

  // Position of the outermost call of an nn.Module; the number of frames if there is none.
  std::size_t OutermostModuleCall(const Stack& stack) const {
    std::size_t outermost = stack.frames.size();
    for (std::size_t position = 0; position < stack.frames.size(); ++position) {
      if (stack.frames[position] >= snapshot_.frames.size()) continue;
      const Frame& frame = snapshot_.frames[stack.frames[position]];
      if (frame.kind == FrameKind::kPython && IsModuleCall(Text(frame.function), Text(frame.file)))
        outermost = position;
    }
    return outermost;
  }

 private:
  // See rule 0: the outermost frame that says so.
  std::optional<Choice> Workspace(const Stack& stack) const {
    std::optional<Choice> chosen;
    for (std::size_t position = 0; position < stack.frames.size(); ++position) {
      if (stack.frames[position] >= snapshot_.frames.size()) continue;
      const Frame& frame = snapshot_.frames[stack.frames[position]];
      if (frame.kind == FrameKind::kPython) break;
      if (ClassOf(frame) != ModuleClass::kPackage || Ignored(frame)) continue;
      const std::string_view name = WorkspaceOf(Text(frame.function));
      // Its caller is whom the outermost of those functions served; what is made is told by the innermost.
      if (!name.empty()) chosen = Choice{position, LineBasis::kFunction, chosen ? chosen->name : name};
    }
    return chosen;
  }

  // See rule 4: a package's Python line, rather one of a package that uses PyTorch than PyTorch's own.
  std::optional<std::size_t> PackageLine(const Stack& stack) const {
    std::optional<std::size_t> of_torch;
    for (std::size_t position = 0; position < stack.frames.size(); ++position) {
      if (stack.frames[position] >= snapshot_.frames.size()) continue;
      const Frame& frame = snapshot_.frames[stack.frames[position]];
      if (frame.kind != FrameKind::kPython || ClassOf(frame) != ModuleClass::kPackage ||
          !Offers(frame, LineBasis::kLine))
        continue;
      if (!IsTorchSource(Text(frame.file))) return position;
      if (!of_torch) of_torch = position;
    }
    return of_torch;
  }

  // See rule 4: what PyTorch was asked to do, from the frames between the allocation and the interpreter.
  std::optional<std::size_t> TorchOperator(const Stack& stack) const {
    std::optional<std::size_t> chosen;
    for (std::size_t position = 0; position < stack.frames.size(); ++position) {
      if (stack.frames[position] >= snapshot_.frames.size()) continue;
      const Frame& frame = snapshot_.frames[stack.frames[position]];
      const ModuleClass module_class = ClassOf(frame);
      if (module_class == ModuleClass::kInterpreter || frame.kind == FrameKind::kPython) break;
      if (module_class != ModuleClass::kPackage || Ignored(frame)) continue;
      const std::string_view function = Text(frame.function);
      if (function.starts_with("at::_ops::") && function.find("::call(") != std::string_view::npos) chosen = position;
      if (function.starts_with("torch::autograd::generated::") && function.find("::apply(") != std::string_view::npos) {
        return position;
      }
    }
    return chosen;
  }

  std::size_t Next(const Stack& stack, std::size_t from, ModuleClass wanted, LineBasis basis) const {
    for (std::size_t position = from; position < stack.frames.size(); ++position) {
      if (stack.frames[position] >= snapshot_.frames.size()) continue;
      const Frame& frame = snapshot_.frames[stack.frames[position]];
      if (ClassOf(frame) == wanted && Offers(frame, basis)) return position;
    }
    return stack.frames.size();
  }

  bool Offers(const Frame& frame, LineBasis basis) const {
    if (frame.kind == FrameKind::kNone || Ignored(frame)) return false;
    const std::string_view function = Text(frame.function), file = Text(frame.file);
    switch (basis) {
      case LineBasis::kLine:
        return frame.line != 0 && !file.empty() && (frame.kind == FrameKind::kPython || !IsSystemSource(file));
      case LineBasis::kFunction:
        return !function.empty() && !IsStaticRuntimeFunction(function) && !IsSystemSource(file);
      case LineBasis::kModule:
        return function.empty() && !ModulePath(frame).empty();
      case LineBasis::kNoStack:
        break;
    }
    return false;
  }

  bool Ignored(const Frame& frame) const {
    return std::any_of(rule_.ignore.begin(), rule_.ignore.end(), [&](const std::string& pattern) {
      return ContainsAny(Text(frame.function), {pattern}) || ContainsAny(Text(frame.file), {pattern}) ||
             ContainsAny(ModulePath(frame), {pattern});
    });
  }

  const Snapshot& snapshot_;
  const LineRule& rule_;
  std::vector<ModuleClass> module_classes_;
};

// One line is one (file, line), however many functions were instantiated on it.
class LineInterner {
 public:
  LineInterner(const Chooser& chooser, std::vector<CodeLine>& lines) : chooser_(chooser), lines_(lines) {}

  std::uint32_t Of(const Frame& frame, LineBasis basis, std::string_view name) {
    CodeLine line;
    line.basis = basis;
    line.module_class = chooser_.ClassOf(frame);
    line.function = name.empty() ? chooser_.Text(frame.function) : name;
    line.module = chooser_.ModulePath(frame);
    Key key{basis, line.module, line.function, 0};
    if (basis == LineBasis::kLine) {
      line.file = chooser_.Text(frame.file);
      line.line = frame.line;
      key = {basis, line.file, "", line.line};
    } else if (basis == LineBasis::kModule) {
      line.offset = frame.offset;
      key = {basis, line.module, "", line.offset};
    }
    const auto [entry, added] = known_.try_emplace(std::move(key), static_cast<std::uint32_t>(lines_.size()));
    if (added) lines_.push_back(std::move(line));
    return entry->second;
  }

 private:
  using Key = std::tuple<LineBasis, std::string, std::string, std::uint64_t>;
  const Chooser& chooser_;
  std::vector<CodeLine>& lines_;
  std::map<Key, std::uint32_t> known_;
};

std::string CommonFolder(const std::vector<CodeLine>& lines) {
  std::optional<std::string> common;
  for (const CodeLine& line : lines) {
    if (line.module_class != ModuleClass::kUser || line.basis != LineBasis::kLine || !line.file.starts_with('/'))
      continue;
    std::string folder = line.file.substr(0, line.file.rfind('/'));
    if (!common) common = folder;
    while (!common->empty() && folder != *common && !folder.starts_with(*common + "/"))
      common->resize(common->rfind('/'));
  }
  return common.value_or("");
}

}  // namespace

ModuleClass ClassifyModule(std::string_view path) {
  if (path.empty()) return ModuleClass::kNone;
  const std::string_view name = BaseName(path);
  if (name.starts_with("libcuheap")) return ModuleClass::kCuheap;
  if (StartsWithAny(name, {"libcuda.so", "libcudart.so", "libcudart-", "libnvidia-"})) return ModuleClass::kCudaRuntime;
  if (StartsWithAny(name, {"libcublas", "libcudnn", "libcufft", "libcurand", "libcusolver", "libcusparse", "libcupti",
                           "libnccl", "libnvrtc", "libnvJitLink", "libnvjpeg", "libnvToolsExt", "libcutensor",
                           "libcudss", "libnvshmem", "libcufile", "libnpp"})) {
    return ModuleClass::kCudaLibrary;
  }
  // ctypes and libffi carry out calls that stand in Python code, wherever they were built.
  if (StartsWithAny(name, {"libpython", "python3", "python2", "_ctypes.", "libffi."}) || name == "python") {
    return ModuleClass::kInterpreter;
  }
  if (ContainsAny(path, {"/site-packages/", "/dist-packages/"}) ||
      StartsWithAny(name, {"libtorch", "libc10", "libtensorflow", "libjax", "xla_"})) {
    return ModuleClass::kPackage;
  }
  if (path.front() == '[' || name.starts_with("ld-linux") || name.starts_with("ld-2.") ||
      StartsWithAny(name, {"libc.so", "libc-2", "libm.so", "libm-2", "libdl", "libpthread", "librt.", "libstdc++",
                           "libgcc_s", "libgomp", "libomp"})) {
    return ModuleClass::kSystem;
  }
  // Libraries there belong to the distribution; programs in /usr/bin are what the user runs.
  if (StartsWithAny(path, {"/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/"})) return ModuleClass::kSystem;
  return ModuleClass::kUser;
}

bool IsSystemSource(std::string_view file) {
  return StartsWithAny(file, {"/usr/include/", "/usr/lib/", "../sysdeps/", "./sysdeps/", "./csu/", "../csu/", "./nptl/",
                              "./elf/", "<frozen"}) ||
         ContainsAny(file, {"/include/c++/", "/targets/x86_64-linux/include/", "/targets/sbsa-linux/include/",
                            "/cuda/include/", "/libstdc++-v3/", "/lib/gcc/"});
}

std::string Describe(const CodeLine& line) {
  switch (line.basis) {
    case LineBasis::kLine:
      return line.file + ":" + std::to_string(line.line);
    case LineBasis::kFunction:
      return line.function + (line.module.empty() ? "" : " in " + std::string(BaseName(line.module)));
    case LineBasis::kModule: {
      constexpr std::string_view kDigits = "0123456789abcdef";
      std::string hex;
      for (std::uint64_t rest = line.offset; rest != 0 || hex.empty(); rest /= 16)
        hex.insert(hex.begin(), kDigits[rest % 16]);
      return std::string(BaseName(line.module)) + "+0x" + hex;
    }
    case LineBasis::kNoStack:
      break;
  }
  return "(no stack)";
}

LineTable::LineTable(const Snapshot& snapshot, const LineRule& rule) : lines_{CodeLine{}}, libraries_{""} {
  const Chooser chooser(snapshot, rule);
  LineInterner interner(chooser, lines_);
  class_of_frame_.reserve(snapshot.frames.size());
  for (const Frame& frame : snapshot.frames) class_of_frame_.push_back(chooser.ClassOf(frame));
  std::map<std::string, std::uint32_t, std::less<>> libraries;
  for (const Stack& stack : snapshot.stacks) {
    const auto chosen = chooser.Choose(stack);
    const auto caller = chosen ? chooser.ChooseCaller(stack, *chosen) : std::nullopt;
    const auto intern = [&](const Chooser::Choice& choice) {
      return interner.Of(snapshot.frames[stack.frames[choice.position]], choice.basis, choice.name);
    };
    of_stack_.push_back(chosen ? intern(*chosen) : 0);
    caller_of_stack_.push_back(caller ? intern(*caller) : 0);
    position_in_stack_.push_back(chosen ? chosen->position : stack.frames.size());
    const std::string library = chooser.LibraryOf(stack);
    const auto [entry, added] = libraries.try_emplace(library, static_cast<std::uint32_t>(libraries_.size()));
    if (library.empty())
      entry->second = 0;
    else if (added)
      libraries_.push_back(library);
    library_of_stack_.push_back(entry->second);
  }
  common_folder_ = CommonFolder(lines_);
  // After the folder: what lies outside of every charged line and its caller must not shorten it.
  for (const Stack& stack : snapshot.stacks) {
    std::vector<std::uint32_t>& callers = callers_of_stack_.emplace_back();
    const std::size_t module_call = chooser.OutermostModuleCall(stack);
    std::size_t entry = 0;
    for (auto at = chooser.Choose(stack); at;) {
      const bool inside = module_call != stack.frames.size() && at->position < module_call;
      at = chooser.ChooseCaller(stack, *at);
      if (!at) break;
      callers.push_back(interner.Of(snapshot.frames[stack.frames[at->position]], at->basis, at->name));
      if (inside) entry = callers.size();
    }
    entry_of_stack_.push_back(entry);
  }
  if (callers_of_stack_.empty()) callers_of_stack_.emplace_back();
}

const std::string& LineTable::LibraryOfStack(std::uint32_t stack) const {
  return libraries_[stack < library_of_stack_.size() ? library_of_stack_[stack] : 0];
}

}  // namespace cuheap::analysis
