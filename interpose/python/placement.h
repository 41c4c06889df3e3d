// Where a thread's Python frames belong among its native ones.
#ifndef CUHEAP_INTERPOSE_PYTHON_PLACEMENT_H_
#define CUHEAP_INTERPOSE_PYTHON_PLACEMENT_H_

#include <cstdint>

namespace cuheap::python {

struct NativeFrames {
  const std::uint64_t* addresses;       // return addresses, innermost first
  const std::uint64_t* stack_pointers;  // where each frame's part of the C stack begins
  unsigned depth;
  bool complete;  // down to the outermost frame
};

struct PythonFrames {
  const std::uint64_t* anchors;  // of WalkPython
  unsigned depth;
  bool complete;
};

// after[i]: behind how many native frames the Python frame i comes; ascending. False: that is not known, and after[i]
// is native.depth for all.
//
// Frames with an anchor come behind the native frame whose part of the stack the anchor lies in: that works for any
// build of the interpreter, with symbols or without, however the compiler cut its loop into pieces. Frames without
// (3.9) have one native frame of the loop each, which are told by loop_begin and loop_end; where their number does not
// agree, because the compiler moved a part of the loop away, nothing is guessed.
bool Place(const NativeFrames& native, const PythonFrames& python, std::uint64_t loop_begin, std::uint64_t loop_end,
           std::uint16_t* after);

}  // namespace cuheap::python

#endif  // CUHEAP_INTERPOSE_PYTHON_PLACEMENT_H_
