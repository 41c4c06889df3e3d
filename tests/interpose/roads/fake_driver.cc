// A driver of a few functions, for the roads only: what it answers can be checked to the address, and some of its
// answers are ones that a real driver might give one day (a function that is no export).
//
// Every function returns a result of its own, so that a program can tell which one it reached.
#include <dlfcn.h>

#include <array>
#include <cstring>

#include "interpose/cuda_api.h"

namespace {

CUresult HiddenManaged(CUdeviceptr*, std::size_t, unsigned int) { return static_cast<CUresult>(9001); }

struct Symbol {
  const char* name;
  int version;
  bool per_thread;
  void* function;
};

template <class Function>
void* Any(Function* function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default"))) CUresult

// Looks itself up in its own handle and calls what it finds, once: what it finds may be a hook that leads back here.
EXPORT cuInit(unsigned int flags) {
  static thread_local bool inside = false;
  if (inside) return CUDA_SUCCESS;
  inside = true;
  void* self = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  const auto found = self != nullptr ? reinterpret_cast<decltype(&cuInit)>(dlsym(self, "cuInit")) : nullptr;
  const CUresult result = found != nullptr ? found(flags) : static_cast<CUresult>(9000);
  if (self != nullptr) dlclose(self);
  inside = false;
  return result;
}
EXPORT cuDriverGetVersion(int* version) { return *version = 13000, CUDA_SUCCESS; }
EXPORT cuCtxGetCurrent(CUcontext* context) { return *context = reinterpret_cast<CUcontext>(0x77), CUDA_SUCCESS; }
EXPORT cuCtxGetDevice(CUdevice* device) { return *device = 0, CUDA_SUCCESS; }
EXPORT cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }
EXPORT cuCtxPushCurrent_v2(CUcontext) { return CUDA_SUCCESS; }
EXPORT cuCtxPopCurrent_v2(CUcontext*) { return CUDA_SUCCESS; }
EXPORT cuCtxSynchronize() { return static_cast<CUresult>(9100); }
EXPORT cuCtxSynchronize_v2(CUcontext) { return static_cast<CUresult>(9101); }
EXPORT cuCtxCreate(CUcontext*, unsigned int, CUdevice) { return static_cast<CUresult>(9110); }
EXPORT cuCtxCreate_v2(CUcontext*, unsigned int, CUdevice) { return static_cast<CUresult>(9111); }
EXPORT cuCtxCreate_v3(CUcontext*, CUexecAffinityParam*, int, unsigned int, CUdevice) {
  return static_cast<CUresult>(9112);
}
EXPORT cuCtxCreate_v4(CUcontext*, CUctxCreateParams*, unsigned int, CUdevice) { return static_cast<CUresult>(9113); }
EXPORT cuMemAlloc(CUdeviceptr_v1*, unsigned int) { return static_cast<CUresult>(9120); }
EXPORT cuMemAlloc_v2(CUdeviceptr*, std::size_t) { return static_cast<CUresult>(9121); }
EXPORT cuMemFree_v2(CUdeviceptr) { return static_cast<CUresult>(9122); }
EXPORT cuMemAllocManaged(CUdeviceptr*, std::size_t, unsigned int) { return static_cast<CUresult>(9123); }
EXPORT cuMemAllocAsync(CUdeviceptr*, std::size_t, CUstream) { return static_cast<CUresult>(9130); }
EXPORT cuMemAllocAsync_ptsz(CUdeviceptr*, std::size_t, CUstream) { return static_cast<CUresult>(9131); }
EXPORT cuMemcpyDtoH_v2(void*, CUdeviceptr, std::size_t) { return static_cast<CUresult>(9140); }
EXPORT cuMemcpyDtoH_v2_ptds(void*, CUdeviceptr, std::size_t) { return static_cast<CUresult>(9141); }
EXPORT cuStreamBeginCapture(CUstream) { return static_cast<CUresult>(9150); }
EXPORT cuStreamBeginCapture_v2(CUstream, CUstreamCaptureMode) { return static_cast<CUresult>(9151); }
EXPORT cuStreamBeginCapture_v2_ptsz(CUstream, CUstreamCaptureMode) { return static_cast<CUresult>(9152); }
// Calls an exported name through the table of symbols, as a driver linked without -Bsymbolic would.
EXPORT cuModuleUnload(CUmodule) { return cuCtxSynchronize(); }

EXPORT cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t flags,
                           CUdriverProcAddressQueryResult* status);
EXPORT cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags) {
  return cuGetProcAddress_v2(symbol, function, version, flags, nullptr);
}

EXPORT cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t flags,
                           CUdriverProcAddressQueryResult* status) {
  static const std::array kSymbols = {
      Symbol{"cuInit", 2000, false, Any(&cuInit)},
      Symbol{"cuCtxSynchronize", 2000, false, Any(&cuCtxSynchronize)},
      Symbol{"cuCtxSynchronize", 13000, false, Any(&cuCtxSynchronize_v2)},
      Symbol{"cuCtxCreate", 2000, false, Any(&cuCtxCreate)},
      Symbol{"cuCtxCreate", 3020, false, Any(&cuCtxCreate_v2)},
      Symbol{"cuCtxCreate", 11040, false, Any(&cuCtxCreate_v3)},
      Symbol{"cuCtxCreate", 12050, false, Any(&cuCtxCreate_v4)},
      Symbol{"cuMemAlloc", 2000, false, Any(&cuMemAlloc)},
      Symbol{"cuMemAlloc", 3020, false, Any(&cuMemAlloc_v2)},
      Symbol{"cuMemFree", 3020, false, Any(&cuMemFree_v2)},
      Symbol{"cuMemAllocManaged", 6000, false, Any(&HiddenManaged)},
      Symbol{"cuMemAllocAsync", 11020, false, Any(&cuMemAllocAsync)},
      Symbol{"cuMemAllocAsync", 11020, true, Any(&cuMemAllocAsync_ptsz)},
      Symbol{"cuMemcpyDtoH", 3020, false, Any(&cuMemcpyDtoH_v2)},
      Symbol{"cuMemcpyDtoH", 7000, true, Any(&cuMemcpyDtoH_v2_ptds)},
      Symbol{"cuStreamBeginCapture", 10000, false, Any(&cuStreamBeginCapture)},
      Symbol{"cuStreamBeginCapture", 10010, false, Any(&cuStreamBeginCapture_v2)},
      Symbol{"cuStreamBeginCapture", 10010, true, Any(&cuStreamBeginCapture_v2_ptsz)},
      Symbol{"cuGetProcAddress", 11030, false, Any(&cuGetProcAddress)},
      Symbol{"cuGetProcAddress", 12000, false, Any(&cuGetProcAddress_v2)},
  };
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  const Symbol* best = nullptr;
  bool has_variant = false;
  bool known = false;
  for (const Symbol& candidate : kSymbols) {
    if (std::strcmp(candidate.name, symbol) != 0) continue;
    known = true;
    has_variant = has_variant || candidate.per_thread;
  }
  for (const Symbol& candidate : kSymbols) {
    if (std::strcmp(candidate.name, symbol) != 0 || candidate.version > version) continue;
    if (candidate.per_thread != (per_thread && has_variant)) continue;
    if (best == nullptr || candidate.version > best->version) best = &candidate;
  }
  if (best == nullptr) {
    *function = nullptr;
    if (status != nullptr) {
      *status = known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    }
    return CUDA_ERROR_NOT_FOUND;
  }
  *function = best->function;
  if (status != nullptr) *status = CU_GET_PROC_ADDRESS_SUCCESS;
  return CUDA_SUCCESS;
}
