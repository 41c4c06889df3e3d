// Another interposer, as limiters of device memory are: it stands in front of two of the driver's functions.
#include <cuda.h>
#include <dlfcn.h>

namespace {

template <class Function>
Function Next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) CUresult cuMemAlloc(CUdeviceptr* out, size_t bytes) {
  return Next<decltype(&cuMemAlloc)>("cuMemAlloc_v2")(out, bytes);
}

__attribute__((visibility("default"))) CUresult cuMemFree(CUdeviceptr address) {
  return Next<decltype(&cuMemFree)>("cuMemFree_v2")(address);
}
}
