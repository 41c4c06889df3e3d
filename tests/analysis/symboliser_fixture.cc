// Code whose names and lines the symboliser test knows: every function that the return address passes through notes
// its own line. Built with -O2 -g into a library of its own, in several forms (see CMakeLists.txt).
#include "tests/analysis/symboliser_fixture.h"

namespace symboliser_fixture {
namespace {

int inlined_line = 0, caller_line = 0;

// The callee sees the return address that lies in this function's copy inside Outer().
__attribute__((always_inline)) inline int InlinedHelper(const void* (*callee)(), const void** address) {
  inlined_line = __LINE__ + 1;
  *address = callee();
  return 1;
}

}  // namespace

__attribute__((noinline)) Answer Outer(const void* (*callee)()) {
  Answer answer;
  caller_line = __LINE__ + 1;
  const int more = InlinedHelper(callee, &answer.address);
  answer.inlined_line = inlined_line;
  answer.caller_line = caller_line + more - 1;
  return answer;
}

}  // namespace symboliser_fixture

extern "C" __attribute__((noinline)) const void* PlainFunction(const void* (*callee)()) {
  const void* address = callee();
  asm volatile("" ::: "memory");  // keeps the call from becoming a jump
  return address;
}
