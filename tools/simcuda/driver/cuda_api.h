// The toolkit's driver header with every exported variant declared under its own name (no renaming macros), which is
// what a library that exports them needs. Include this instead of <cuda.h> inside the driver.
#pragma once

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL  // NOLINT: the header's own switch
#endif
#include <cuda.h>
#include <cudaProfiler.h>
