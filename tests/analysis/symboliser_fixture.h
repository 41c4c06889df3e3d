// See symboliser_fixture.cc.
#ifndef CUHEAP_TESTS_ANALYSIS_SYMBOLISER_FIXTURE_H_
#define CUHEAP_TESTS_ANALYSIS_SYMBOLISER_FIXTURE_H_

#define FIXTURE_EXPORT __attribute__((visibility("default")))

namespace symboliser_fixture {

struct Answer {
  const void* address = nullptr;  // what the callee returned: its return address
  int inlined_line = 0;           // of the call in the inlined function
  int caller_line = 0;            // of the inlined function's call
};
FIXTURE_EXPORT Answer Outer(const void* (*callee)());

}  // namespace symboliser_fixture

extern "C" FIXTURE_EXPORT const void* PlainFunction(const void* (*callee)());

#endif  // CUHEAP_TESTS_ANALYSIS_SYMBOLISER_FIXTURE_H_
