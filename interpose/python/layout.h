// Where CPython keeps what a walk over its frames reads, for each minor version. Offsets in bytes, of 64-bit release
// builds with the GIL.
//
// Source: the headers of CPython 3.9.18, 3.10.13, 3.11.7, 3.12.1 and 3.13.0 (Include/cpython, Include/internal), read
// with offsetof; tests/interpose/python compares with the interpreters of the machine. These structures do not change
// within a minor version.
#ifndef CUHEAP_INTERPOSE_PYTHON_LAYOUT_H_
#define CUHEAP_INTERPOSE_PYTHON_LAYOUT_H_

#include <cstdint>

namespace cuheap::python {

// How a frame says where its code is.
enum class Position : std::uint8_t {
  kByteOffset,  // int, in bytes from the beginning of the bytecode
  kUnitOffset,  // int, in code units of 2 bytes
  kPointer,     // into the code object
};

// How it is known which frames one activation of the interpreter's loop runs, and where that activation is on the
// C stack.
enum class Entry : std::uint8_t {
  kEach,        // every frame has an activation of its own, of which nothing is known (3.9)
  kEachCFrame,  // every frame has its own, which keeps a CFrame on the C stack (3.10)
  kFlagCFrame,  // the outermost frame of an activation is flagged; the activation has a CFrame on the C stack (3.11)
  kShim,        // behind the outermost frame comes a frame without code that lies on the C stack (3.12 and later)
};

struct Layout {
  std::uint8_t minor = 0;
  Position position = Position::kPointer;
  Entry entry = Entry::kShim;
  bool frame_through_cframe = false;       // state -> CFrame -> frame; otherwise state -> frame
  std::uint16_t state_frame = 0;           // PyThreadState: frame, current_frame, or the CFrame
  std::uint16_t state_cframe = 0;          // PyThreadState.cframe, where there is one
  std::uint16_t cframe_frame = 0;          // CFrame.current_frame
  std::uint16_t cframe_previous = 0;       // CFrame.previous
  std::uint16_t frame_code = 0;            // f_code, f_executable
  std::uint16_t frame_previous = 0;        // f_back, previous
  std::uint16_t frame_position = 0;        // f_lasti, prev_instr, instr_ptr
  std::uint16_t frame_owner = 0;           // one byte; 3.11 and later
  std::uint16_t frame_is_entry = 0;        // one byte; 3.11
  std::uint16_t code_first_line = 0;       // int co_firstlineno
  std::uint16_t code_filename = 0;         // co_filename
  std::uint16_t code_name = 0;             // co_qualname, co_name before 3.11
  std::uint16_t code_line_table = 0;       // co_lnotab, co_linetable
  std::uint16_t code_first_traceable = 0;  // int _co_firsttraceable; 3.11 and later
  std::uint16_t code_bytecode = 0;         // co_code_adaptive; 3.11 and later
  std::uint16_t string_ascii = 0;          // where the characters of an ASCII string begin
  std::uint16_t string_compact = 0;        // ... of another string
};

// The same in all of them.
inline constexpr std::uint16_t kObjectType = 8;     // ob_type
inline constexpr std::uint16_t kObjectSize = 16;    // ob_size; number of code units of a code object from 3.11 on
inline constexpr std::uint16_t kStringLength = 16;  // in characters
inline constexpr std::uint16_t kStringState = 32;   // interned 2 bits, kind 3, compact 1, ascii 1
inline constexpr std::uint16_t kBytesData = 32;
inline constexpr std::uint16_t kTypeFlags = 168;  // PyTypeObject.tp_flags
// Py_TPFLAGS_UNICODE_SUBCLASS, ..._BYTES_SUBCLASS: the object begins as the class it is derived from does.
inline constexpr std::uint64_t kStringSubclass = std::uint64_t{1} << 28;
inline constexpr std::uint64_t kBytesSubclass = std::uint64_t{1} << 27;

// Values of the frame's owner.
inline constexpr std::uint8_t kOwnedByGenerator = 1;
inline constexpr std::uint8_t kOwnedByCStack = 3;  // a shim, from 3.12 on

// nullptr: a version whose structures are not known here.
const Layout* LayoutOf(unsigned major, unsigned minor);

// What CPython 3.13 and later say themselves at the beginning of _PyRuntime, as far as it is needed.
struct DebugOffsets {
  char cookie[8];  // "xdebugpy"
  std::uint64_t version;
  std::uint64_t free_threaded;
  std::uint64_t groups[3 + 13];  // of the runtime and of interpreters
  struct {
    std::uint64_t size, previous, next, interpreter, current_frame, thread_id, native_thread_id, data_stack, status;
  } state;
  struct {
    std::uint64_t size, previous, executable, position, locals, owner;
  } frame;
  struct {
    std::uint64_t size, filename, name, qualified_name, line_table, first_line, argument_count, local_names,
        local_kinds, bytecode;
  } code;
};
// They agree with the layout. Precondition: the layout is of 3.13, of which this structure is.
bool Agrees(const Layout& layout, const DebugOffsets& offsets);

}  // namespace cuheap::python

#endif  // CUHEAP_INTERPOSE_PYTHON_LAYOUT_H_
