// Entry points that exist twice: with the legacy default stream, and (suffix _ptds or _ptsz) with the per-thread one.
#ifndef CUHEAP_TOOLS_SIMCUDA_RUNTIME_STREAM_VARIANTS_H_
#define CUHEAP_TOOLS_SIMCUDA_RUNTIME_STREAM_VARIANTS_H_

#include "tools/simcuda/runtime/runtime.h"

// Defines `name` and `name##suffix`, both `InContext(function(driver, streams, arguments...))`, where `streams` are the
// driver's calls of that default stream. PARAMETERS and ARGUMENTS are parenthesised lists.
#define SIMCUDART_VARIANTS(name, suffix, parameters, function, ...)                           \
  SIMCUDART_EXPORT cudaError_t name parameters {                                              \
    return cuheap::simcudart::InContext([&](const cuheap::simcudart::DriverCalls& d) {        \
      return cuheap::simcudart::ToRuntime(function(d.legacy __VA_OPT__(, ) __VA_ARGS__));     \
    });                                                                                       \
  }                                                                                           \
  SIMCUDART_EXPORT cudaError_t name##suffix parameters {                                      \
    return cuheap::simcudart::InContext([&](const cuheap::simcudart::DriverCalls& d) {        \
      return cuheap::simcudart::ToRuntime(function(d.per_thread __VA_OPT__(, ) __VA_ARGS__)); \
    });                                                                                       \
  }

// The same where the driver's function of that name takes the same arguments.
#define SIMCUDART_FORWARD_VARIANTS(name, suffix, parameters, member, ...)                           \
  SIMCUDART_EXPORT cudaError_t name parameters {                                                    \
    return cuheap::simcudart::InContext(                                                            \
        [&](const cuheap::simcudart::DriverCalls& d) { return d.legacy.member(__VA_ARGS__); });     \
  }                                                                                                 \
  SIMCUDART_EXPORT cudaError_t name##suffix parameters {                                            \
    return cuheap::simcudart::InContext(                                                            \
        [&](const cuheap::simcudart::DriverCalls& d) { return d.per_thread.member(__VA_ARGS__); }); \
  }

#endif  // CUHEAP_TOOLS_SIMCUDA_RUNTIME_STREAM_VARIANTS_H_
