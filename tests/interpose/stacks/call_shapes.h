// Functions of many shapes of frame, for walking through.
#ifndef CUHEAP_TESTS_INTERPOSE_STACKS_CALL_SHAPES_H_
#define CUHEAP_TESTS_INTERPOSE_STACKS_CALL_SHAPES_H_

#include <cstdint>
#include <functional>

namespace cuheap::testing {

using Leaf = std::function<void()>;

// Calls `leaf` below a chain of `depth` calls whose shapes are drawn by `seed`: plain frames, big frames, frames of
// variable size (alloca), frames with aligned variables, frames that call through libc (qsort) and libstdc++
// (std::call_once), functions with many saved registers, virtual calls, catch blocks.
void CallThroughShapes(unsigned depth, std::uint64_t seed, const Leaf& leaf);

}  // namespace cuheap::testing

#endif  // CUHEAP_TESTS_INTERPOSE_STACKS_CALL_SHAPES_H_
