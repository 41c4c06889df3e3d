// A weak definition of every documented name that cublaslt*.cc lacks: newer functions, mostly.
#include "tools/simcuda/libraries/blas.h"

#define NAME(name) \
  extern "C" __attribute__((weak, visibility("default"))) int name() { return cuheap::simblas::NotSimulated(#name); }
#include "tools/simcuda/libraries/cublaslt_names.inc"
#undef NAME
