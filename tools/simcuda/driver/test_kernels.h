// Test kernels: see simcuda.h for what they do.
#pragma once

#include "tools/simcuda/driver/module.h"

namespace simcuda {

struct Context;

void RegisterBuiltInKernels(Modules& modules);

// Says whose work this thread runs, for simcuda_fail_context(); null when it is done.
void SetRunningContext(Context* context);

}  // namespace simcuda
