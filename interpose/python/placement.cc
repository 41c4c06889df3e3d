#include "interpose/python/placement.h"

#include <algorithm>

namespace cuheap::python {
namespace {

bool PlaceByAnchors(const NativeFrames& native, const PythonFrames& python, std::uint16_t* after) {
  unsigned behind = 0;
  std::uint64_t last = 0;
  for (unsigned i = 0; i < python.depth; ++i) {
    const std::uint64_t anchor = python.anchors[i];
    // The C stack grows downwards, so outer frames lie higher. Otherwise the thread changed its stack on the way.
    if (anchor < last || native.depth == 0 || anchor < native.stack_pointers[0]) return false;
    last = anchor;
    while (behind < native.depth && native.stack_pointers[behind] <= anchor) ++behind;
    after[i] = static_cast<std::uint16_t>(behind);
  }
  return true;
}

bool PlaceByLoop(const NativeFrames& native, const PythonFrames& python, std::uint64_t loop_begin,
                 std::uint64_t loop_end, std::uint16_t* after) {
  unsigned placed = 0;
  for (unsigned i = 0; i < native.depth; ++i) {
    // A return address points behind the call.
    if (native.addresses[i] - 1 - loop_begin >= loop_end - loop_begin) continue;
    if (placed == python.depth) return !python.complete;
    after[placed++] = static_cast<std::uint16_t>(i + 1);
  }
  if (placed < python.depth && native.complete) return false;
  // The native frames end first: what is left is outside of all of them.
  for (; placed < python.depth; ++placed) after[placed] = static_cast<std::uint16_t>(native.depth);
  return true;
}

}  // namespace

bool Place(const NativeFrames& native, const PythonFrames& python, std::uint64_t loop_begin, std::uint64_t loop_end,
           std::uint16_t* after) {
  const bool anchored = python.depth > 0 && python.anchors[0] != 0;
  const bool placed =
      anchored ? PlaceByAnchors(native, python, after) : PlaceByLoop(native, python, loop_begin, loop_end, after);
  if (!placed) std::fill_n(after, python.depth, static_cast<std::uint16_t>(native.depth));
  return placed;
}

}  // namespace cuheap::python
