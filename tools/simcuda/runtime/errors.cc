// CUDA Runtime API, "Error Handling".
#include <cstdio>
#include <mutex>
#include <set>
#include <string_view>

#include "tools/simcuda/runtime/runtime.h"

namespace cuheap::simcudart {

cudaError_t NotSimulated(const char* name) {
  static std::mutex mutex;
  static auto* const named = new std::set<std::string_view>();
  {
    std::lock_guard lock(mutex);
    if (named->insert(name).second) {
      std::fprintf(stderr, "simcuda: %s is not simulated: it returns cudaErrorNotSupported\n", name);
    }
  }
  return Thread::Current().Finish(cudaErrorNotSupported);
}

// For names.cc, which can't include the headers.
int NotSimulatedName(const char* name);
int NotSimulatedName(const char* name) { return NotSimulated(name); }

}  // namespace cuheap::simcudart

using cuheap::simcudart::Thread;

SIMCUDART_EXPORT cudaError_t cudaGetLastError() { return Thread::Current().TakeLastError(); }

SIMCUDART_EXPORT cudaError_t cudaPeekAtLastError() { return Thread::Current().last_error(); }

SIMCUDART_EXPORT const char* cudaGetErrorName(cudaError_t error) {
  switch (static_cast<int>(error)) {  // newer headers have more
#define ERROR(name, text) \
  case name:              \
    return #name;
#include "tools/simcuda/runtime/errors.inc"
#undef ERROR
  }
  return "unrecognized error code";
}

SIMCUDART_EXPORT const char* cudaGetErrorString(cudaError_t error) {
  switch (static_cast<int>(error)) {  // newer headers have more
#define ERROR(name, text) \
  case name:              \
    return text;
#include "tools/simcuda/runtime/errors.inc"
#undef ERROR
  }
  return "unrecognized error code";
}
