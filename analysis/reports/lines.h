// Which line of code a stack is charged to: the rule, and the table of lines of a snapshot.
//
// Note [The user's line]
// A stack starts in the CUDA runtime and ends in main or a thread's start; one of its frames is what its author can
// change. The rule, innermost frame first:
//   0. memory that PyTorch gets for a CUDA library (see WorkspaceOf) is that library's, whoever was first to need it:
//   it
//      is kept for each handle and stream, and used by many lines;
//   1. the first frame that has file and line and lies in a user module (see ModuleClass): functions inlined there
//   count
//      as frames of their own; frames whose source lies in a system folder (/usr/include, the compiler's or the CUDA
//      toolkit's headers) are stepped over, so that a std::vector or thrust inside does not hide its user;
//   2. else the first frame in a user module that has a function name and is not the CUDA runtime linked statically;
//   3. else the first frame in a user module at all, as module and offset (no symbols);
//   4. else frames of installed packages (site-packages: PyTorch, CuPy, ...), then of CUDA libraries, so that a
//      workspace is charged to the library that keeps it: the innermost Python line of a package, rather of one that
//      uses PyTorch (transformers) than PyTorch's own; else, of PyTorch's many native frames, the one that says what it
//      was asked to do: the autograd node (AddmmBackward0) of a backward pass, which has no Python frames, or the
//      outermost operator (linear); else the same three questions as above;
//   5. else "(no stack)".
// Python frames are the user's, but for those of installed packages, of PyTorch in a checkout, of code it generated,
// and of the standard library. A frame that matches one of LineRule::ignore is never chosen: with it a wrapper such as
// `my::DeviceAlloc` gives way to its caller.
#ifndef CUHEAP_ANALYSIS_REPORTS_LINES_H_
#define CUHEAP_ANALYSIS_REPORTS_LINES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/snapshot.h"

namespace cuheap::analysis {

// Whose code a loaded object is, by its path.
enum class ModuleClass : std::uint8_t {
  kNone,         // no module: JIT code, or not known
  kUser,         // the program, and libraries that are none of the others
  kPackage,      // an installed Python package: PyTorch, CuPy, ... (site-packages, dist-packages, or by name)
  kInterpreter,  // python, libpython, and what calls C for it: _ctypes, libffi
  kCudaLibrary,  // cuBLAS, cuDNN, NCCL, ...
  kCudaRuntime,  // libcudart, libcuda
  kSystem,       // libc, libstdc++, the loader, and whatever lies in the system's library folders
  kCuheap,       // ourselves
};
ModuleClass ClassifyModule(std::string_view path);

// Source folders whose code is not the user's although it was compiled into the user's module.
bool IsSystemSource(std::string_view file);

struct LineRule {
  std::vector<std::string> ignore;  // substrings of function, file or module path
};

// Why this frame was chosen: how much a reader may trust the name.
enum class LineBasis : std::uint8_t { kNoStack, kModule, kFunction, kLine };

struct CodeLine {
  LineBasis basis = LineBasis::kNoStack;
  ModuleClass module_class = ModuleClass::kNone;  // of the frame
  std::string function, file, module;             // empty: not known
  std::uint32_t line = 0;
  std::uint64_t offset = 0;  // in the module, if basis is kModule
};
// "train.cc:57", "Step() in libtrain.so", "libtrain.so+0x1234" or "(no stack)"; the file as the compiler recorded it.
std::string Describe(const CodeLine& line);

// Every line that the stacks of a snapshot are charged to. Line 0 is "(no stack)".
class LineTable {
 public:
  LineTable(const Snapshot& snapshot, const LineRule& rule);

  // stack: an index into snapshot.stacks; out of range gives line 0.
  std::uint32_t OfStack(std::uint32_t stack) const { return stack < of_stack_.size() ? of_stack_[stack] : 0; }
  // The user's line that called the chosen one: the next frame outward that rule 1 accepts and that lies on another
  // line. 0: there is none. It tells the users of a wrapper apart.
  std::uint32_t CallerOfStack(std::uint32_t stack) const {
    return stack < caller_of_stack_.size() ? caller_of_stack_[stack] : 0;
  }
  // All of the user's lines outward from the chosen one, each as CallerOfStack finds it from the one before.
  const std::vector<std::uint32_t>& CallersOfStack(std::uint32_t stack) const {
    return callers_of_stack_[stack < callers_of_stack_.size() ? stack : 0];
  }
  // Where the user's code enters PyTorch's modules: how many of CallersOfStack lie inside the outermost nn.Module call.
  // 0: the chosen line itself is outside of any. A line of forward() is shared by training and validation; the line
  // that calls the model is not.
  std::size_t EntryOfStack(std::uint32_t stack) const {
    return stack < entry_of_stack_.size() ? entry_of_stack_[stack] : 0;
  }
  // Position in snapshot.stacks[stack].frames of the chosen frame; the number of frames if there is none.
  std::size_t PositionInStack(std::uint32_t stack) const {
    return stack < position_in_stack_.size() ? position_in_stack_[stack] : 0;
  }
  // The CUDA library that asked for the memory: the class of the first frame beyond the CUDA runtime is kCudaLibrary,
  // then its file name; or "cuBLAS" for a workspace that PyTorch got for it; else empty.
  const std::string& LibraryOfStack(std::uint32_t stack) const;

  // Whose code a frame is (an index into snapshot.frames): a Python frame by its file, others by their module.
  ModuleClass ClassOfFrame(std::uint32_t frame) const {
    return frame < class_of_frame_.size() ? class_of_frame_[frame] : ModuleClass::kNone;
  }

  // Longest folder that holds the files of all lines in user modules; empty if there is none but "/".
  const std::string& common_folder() const { return common_folder_; }

  const CodeLine& line(std::uint32_t index) const { return lines_[index]; }
  std::size_t size() const { return lines_.size(); }

 private:
  std::vector<CodeLine> lines_;
  std::vector<std::uint32_t> of_stack_, caller_of_stack_, library_of_stack_;
  std::vector<std::vector<std::uint32_t>> callers_of_stack_;  // never empty: stack 0 is always there
  std::vector<std::size_t> position_in_stack_, entry_of_stack_;
  std::vector<ModuleClass> class_of_frame_;
  std::vector<std::string> libraries_;
  std::string common_folder_;
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_LINES_H_
