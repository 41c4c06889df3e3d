#include "tests/campaigns/random/kernels.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "tools/simcuda/simcuda.h"

namespace cuheap::campaigns {
namespace {

const SimcudaTable& Simulation() {
  static const SimcudaTable* const table = [] {
    auto get = reinterpret_cast<decltype(&simcuda_get_table)>(dlsym(RTLD_DEFAULT, "simcuda_get_table"));
    const SimcudaTable* found = get ? get(SIMCUDA_TABLE_VERSION) : nullptr;
    if (!found) {
      std::fprintf(
          stderr, "random programs need the simulated driver (libcuda.so.1 of lib/simcuda first in LD_LIBRARY_PATH)\n");
      std::exit(2);
    }
    return found;
  }();
  return *table;
}

CUresult Launch(CUfunction function, const Where& where, void** parameters) {
  return where.calls->launch(function, 1, 1, 1, 32, 1, 1, 0, where.stream, parameters, nullptr);
}

struct HiddenAdd {
  CUdeviceptr words;
  std::uint64_t count;
  std::uint32_t value;
};

int RunHiddenAdd(const SimcudaLaunch* launch) {
  auto* work = static_cast<HiddenAdd*>(launch->user_data);
  if (auto* words = static_cast<std::uint32_t*>(Simulation().host_view(work->words, work->count * 4))) {
    for (std::uint64_t i = 0; i < work->count; ++i) words[i] = words[i] * (work->value | 1) + work->value;
  } else {
    Simulation().fail_context(CUDA_ERROR_ILLEGAL_ADDRESS);
  }
  delete work;
  return 0;
}

}  // namespace

Kernels LoadKernels() {
  Simulation();
  Kernels kernels;
  CUmodule module = nullptr;
  if (cuModuleLoadData(&module, "random programs") != CUDA_SUCCESS ||
      cuModuleGetFunction(&kernels.fill, module, "simcuda_fill") != CUDA_SUCCESS ||
      cuModuleGetFunction(&kernels.scale_add, module, "simcuda_scale_add") != CUDA_SUCCESS ||
      cuModuleGetFunction(&kernels.add, module, "simcuda_add") != CUDA_SUCCESS) {
    std::fprintf(stderr, "the simulated driver's test kernels cannot be loaded\n");
    std::exit(2);
  }
  return kernels;
}

CUresult LaunchFill(const Kernels& kernels, const Where& where, CUdeviceptr words, std::uint32_t value,
                    std::uint64_t count) {
  void* parameters[] = {&words, &count, &value};
  return Launch(kernels.fill, where, parameters);
}

CUresult LaunchAdd(const Kernels& kernels, const Where& where, CUdeviceptr words, std::uint32_t value,
                   std::uint64_t count) {
  std::uint32_t factor = value | 1;
  void* parameters[] = {&words, &count, &factor, &value};
  return Launch(kernels.scale_add, where, parameters);
}

CUresult LaunchSum(const Kernels& kernels, const Where& where, CUdeviceptr to, CUdeviceptr a, CUdeviceptr b,
                   std::uint64_t count) {
  void* parameters[] = {&to, &a, &b, &count};
  return Launch(kernels.add, where, parameters);
}

CUresult LaunchHiddenAdd(const Where& where, CUdeviceptr words, std::uint32_t value, std::uint64_t count) {
  const bool per_thread = where.stream == nullptr && where.calls == &kPerThreadCalls;
  const CUstream stream = per_thread ? CU_STREAM_PER_THREAD : where.stream;
  return Simulation().launch_hidden(stream, RunHiddenAdd, new HiddenAdd{words, count, value});
}

}  // namespace cuheap::campaigns
