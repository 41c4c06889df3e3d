#include "interpose/python/interpreter.h"

#include <cstdlib>
#include <cstring>

#include "interpose/python/object_symbols.h"

namespace cuheap::python {
namespace {

// "3.11.7 (main, ...": the number alone, and its parts.
bool ReadVersion(const char* text, Interpreter& interpreter, unsigned& major, unsigned& minor) {
  std::size_t length = 0;
  while (text[length] != '\0' && text[length] != ' ' && length + 1 < sizeof(interpreter.version_text)) ++length;
  std::memcpy(interpreter.version_text, text, length);
  interpreter.version_text[length] = '\0';
  char* end = nullptr;
  major = static_cast<unsigned>(std::strtoul(interpreter.version_text, &end, 10));
  if (*end != '.') return false;
  minor = static_cast<unsigned>(std::strtoul(end + 1, &end, 10));
  interpreter.version = major << 8 | minor;
  return *end == '.';
}

// Why the frames of this build cannot be read; nullptr: they can.
const char* RefusalOf(const ObjectSymbols& symbols, const Layout* layout, unsigned major, unsigned minor) {
  if (layout == nullptr) {
    return major < 3 || (major == 3 && minor < 9) ? "its frames are known from Python 3.9 on"
                                                  : "its frames are known up to Python 3.13";
  }
  // Both exist in such builds only: Include/object.h under Py_REF_DEBUG, under Py_GIL_DISABLED.
  if (symbols.Find("_Py_NegativeRefcount").address != 0) return "it is a debug build, whose structures differ";
  if (symbols.Find("_Py_MergeZeroLocalRefcount").address != 0) return "it is a free-threaded build";
  if (layout->minor >= 13) {
    const ObjectSymbols::Symbol runtime = symbols.Find("_PyRuntime");
    if (runtime.address == 0 || runtime.bytes < sizeof(DebugOffsets) ||
        !Agrees(*layout, *reinterpret_cast<const DebugOffsets*>(runtime.address))) {
      return "its structures are not those of the release";
    }
  }
  return nullptr;
}

}  // namespace

FindResult FindInterpreter(const stacks::LoadedObject& object, Interpreter& interpreter, const char*& reason) {
  const ObjectSymbols symbols(object);
  const auto state = symbols.Find("PyGILState_GetThisThreadState").address;
  const auto version = symbols.Find("Py_GetVersion").address;
  if (state == 0 || version == 0) return FindResult::kNone;
  unsigned major = 0, minor = 0;
  const char* text = reinterpret_cast<const char* (*)()>(version)();
  if (text == nullptr || !ReadVersion(text, interpreter, major, minor)) {
    reason = "its version is not understood";
    return FindResult::kRefused;
  }
  interpreter.layout = LayoutOf(major, minor);
  if (std::strpbrk(interpreter.version_text, "abr") != nullptr) {  // 3.13.0a1, 3.13.0b1, 3.13.0rc1
    reason = "it is a preview release, whose structures may differ from the release's";
    return FindResult::kRefused;
  }
  reason = RefusalOf(symbols, interpreter.layout, major, minor);
  if (reason != nullptr) return FindResult::kRefused;
  interpreter.code_type = symbols.Find("PyCode_Type").address;
  interpreter.string_type = symbols.Find("PyUnicode_Type").address;
  interpreter.bytes_type = symbols.Find("PyBytes_Type").address;
  const std::uint64_t initialized = symbols.Find("Py_IsInitialized").address;
  if (interpreter.code_type == 0 || interpreter.string_type == 0 || interpreter.bytes_type == 0 || initialized == 0) {
    reason = "it lacks a name that every CPython exports";
    return FindResult::kRefused;
  }
  const ObjectSymbols::Symbol loop = symbols.Find("_PyEval_EvalFrameDefault");
  interpreter.loop_begin = loop.address;
  interpreter.loop_end = loop.address + loop.bytes;
  interpreter.is_initialized = reinterpret_cast<int (*)()>(initialized);
  interpreter.this_thread_state = reinterpret_cast<void* (*)()>(state);
  return FindResult::kFound;
}

}  // namespace cuheap::python
