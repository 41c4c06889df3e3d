// The kernels of the random programs: the simulated driver's test kernels (tools/simcuda/simcuda.h).
#ifndef CUHEAP_TESTS_CAMPAIGNS_RANDOM_KERNELS_H_
#define CUHEAP_TESTS_CAMPAIGNS_RANDOM_KERNELS_H_

#include <cuda.h>

#include <cstdint>

#include "tests/campaigns/random/calls.h"

namespace cuheap::campaigns {

struct Kernels {
  CUfunction fill = nullptr;
  CUfunction scale_add = nullptr;
  CUfunction add = nullptr;
};
// In the current context. Ends the process if the driver is not the simulated one: nothing else has these kernels.
Kernels LoadKernels();

// words[i] = value, for count 4-byte words, in stream order.
CUresult LaunchFill(const Kernels& kernels, const Where& where, CUdeviceptr words, std::uint32_t value,
                    std::uint64_t count);
// words[i] = words[i] * (value | 1) + value.
CUresult LaunchAdd(const Kernels& kernels, const Where& where, CUdeviceptr words, std::uint32_t value,
                   std::uint64_t count);
// The same through a road that no hook sees, as the vendor's libraries have.
CUresult LaunchHiddenAdd(const Where& where, CUdeviceptr words, std::uint32_t value, std::uint64_t count);
// to[i] = a[i] + b[i].
CUresult LaunchSum(const Kernels& kernels, const Where& where, CUdeviceptr to, CUdeviceptr a, CUdeviceptr b,
                   std::uint64_t count);

}  // namespace cuheap::campaigns

#endif  // CUHEAP_TESTS_CAMPAIGNS_RANDOM_KERNELS_H_
