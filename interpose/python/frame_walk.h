// Walks the calling thread's Python frames by reading the interpreter's structures, without the GIL.
//
// Why that is sound: only the thread itself pushes and pops its frames, and it is inside a C call while it runs this;
// each frame holds its code object, and the fields read of that never change. Nothing is kept of what was read: code
// objects are copied (code_table.h). docs/decisions/0008-python-frames-read-in-place.md.
#ifndef CUHEAP_INTERPOSE_PYTHON_FRAME_WALK_H_
#define CUHEAP_INTERPOSE_PYTHON_FRAME_WALK_H_

#include <cstdint>

#include "interpose/journal/format.h"
#include "interpose/python/code_table.h"
#include "interpose/python/interpreter.h"

namespace cuheap::python {

inline constexpr unsigned kMaxPythonDepth = 1024;

struct PythonWalk {
  unsigned depth = 0;       // words written
  bool truncated = false;   // there were more frames than room
  bool unreadable = false;  // something was not what the layout says: outer frames are missing
  journal::NoPython none = journal::NoPython::kNotAsked;  // why depth is 0
};

// Writes the words (journal::MakePythonWord) of the calling thread's frames, innermost first.
// anchors, if given, has room for as many: for each frame an address on the C stack inside the native frame of the
// interpreter's loop that runs it, 0 if not known.
// checked: every page is asked for before it is read.
PythonWalk WalkPython(const Interpreter& interpreter, CodeTable& codes, bool checked, std::uint64_t* words,
                      unsigned max_words, std::uint64_t* anchors = nullptr);

}  // namespace cuheap::python

#endif  // CUHEAP_INTERPOSE_PYTHON_FRAME_WALK_H_
