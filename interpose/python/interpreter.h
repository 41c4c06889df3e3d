// The Python interpreter of the process, as far as reading its frames needs it: found by its exported names in the
// object it lies in (the program itself or a library), described by the layout of its version.
#ifndef CUHEAP_INTERPOSE_PYTHON_INTERPRETER_H_
#define CUHEAP_INTERPOSE_PYTHON_INTERPRETER_H_

#include <atomic>
#include <cstdint>

#include "interpose/python/layout.h"
#include "interpose/stacks/loaded_objects.h"

namespace cuheap::python {

struct Interpreter {
  const Layout* layout = nullptr;
  std::uint32_t version = 0;  // PY_VERSION_HEX's upper half: major << 8 | minor
  char version_text[32] = "";
  std::uint64_t code_type = 0;    // &PyCode_Type
  std::uint64_t string_type = 0;  // &PyUnicode_Type
  std::uint64_t bytes_type = 0;   // &PyBytes_Type
  std::uint64_t loop_begin = 0;   // _PyEval_EvalFrameDefault, without parts that the compiler moved away
  std::uint64_t loop_end = 0;
  // Both may be called without the GIL. PyGILState_GetThisThreadState reads a thread-specific value; NULL for a thread
  // that never had a state. Source: CPython's C API reference, "Initialization, Finalization, and Threads".
  int (*is_initialized)() = nullptr;
  void* (*this_thread_state)() = nullptr;
};

enum class FindResult {
  kNone,     // the object holds no interpreter
  kFound,    // `interpreter` is filled
  kRefused,  // it holds one whose frames cannot be read: `reason`, and version_text where it is known
};

// Reads only the object's own tables and calls Py_GetVersion: no lock, no allocation. Precondition: the object stays
// loaded. reason: an English clause, static.
FindResult FindInterpreter(const stacks::LoadedObject& object, Interpreter& interpreter, const char*& reason);

}  // namespace cuheap::python

#endif  // CUHEAP_INTERPOSE_PYTHON_INTERPRETER_H_
