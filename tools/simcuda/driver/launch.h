// One kernel launch, as stream, captured piece of work or node of a graph.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tools/simcuda/driver/context.h"
#include "tools/simcuda/driver/cuda_api.h"
#include "tools/simcuda/driver/module.h"
#include "tools/simcuda/driver/stream.h"
#include "tools/simcuda/simcuda.h"

namespace simcuda {

struct LaunchShape {
  unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
};

// A launch's own copy of everything that the kernel will see.
struct PendingLaunch {
  std::string name;
  SimcudaLaunch launch{};
  std::vector<char> bytes;
  std::vector<const void*> pointers;
};

struct LaunchDetails {
  CUfunction function = nullptr;  // a kernel's handle too, where the call took one
  LaunchShape shape;
  std::shared_ptr<PendingLaunch> parameters;  // null: the kernel is not registered, its parameters are unknown
  std::map<int, CUlaunchAttributeValue> attributes;
  bool cooperative = false;
};

// The piece of work of a launch in `context`, with its details.
// Errors: INVALID_HANDLE, INVALID_VALUE (shape, parameters given twice or not at all).
CUresult MakeLaunch(Context& context, const LaunchDetails& launch, void** kernel_params, void** extra,
                    std::shared_ptr<Work>* work);

}  // namespace simcuda
