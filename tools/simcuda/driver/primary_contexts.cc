// Primary Context Management (Driver API reference 6.7).
#include "entry_points.h"
#include "tools/simcuda/driver/contexts.h"
#include "tools/simcuda/driver/state.h"

namespace simcuda {

CUresult impl::cuDevicePrimaryCtxRetain(CUcontext* pctx, CUdevice dev) {
  if (pctx == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Device* device = nullptr;
  if (const CUresult result = FindDevice(dev, &device)) return result;
  State& state = State::Get();
  const bool fresh = !device->primary;
  if (fresh) {
    device->primary = std::make_shared<Context>();
    device->primary->device = device;
    device->primary->primary = true;
    device->primary->active = false;
    device->primary->api_version = 3020;
  }
  if (!device->primary->active) {
    if (const CUresult result = ActivateContext(device->primary)) {
      if (fresh) device->primary.reset();
      return result;
    }
  }
  if (fresh) device->primary->handle = state.contexts.Add(device->primary);
  ++device->primary_references;
  *pctx = device->primary->handle;
  return CUDA_SUCCESS;
}

CUresult impl::cuDevicePrimaryCtxRelease_v2(CUdevice dev) {
  Device* device = nullptr;
  if (const CUresult result = FindDevice(dev, &device)) return result;
  if (device->primary_references == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--device->primary_references == 0 && device->primary->active) {
    DeactivateContext(*device->primary, "cuDevicePrimaryCtxRelease");
  }
  return CUDA_SUCCESS;
}

// "Resetting the primary context does not release it": the references stay, everything in it goes.
CUresult impl::cuDevicePrimaryCtxReset_v2(CUdevice dev) {
  Device* device = nullptr;
  if (const CUresult result = FindDevice(dev, &device)) return result;
  if (device->primary && device->primary->active) DeactivateContext(*device->primary, "cuDevicePrimaryCtxReset");
  device->primary_flags = 0;
  return CUDA_SUCCESS;
}

CUresult impl::cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags) {
  Device* device = nullptr;
  if (const CUresult result = FindDevice(dev, &device)) return result;
  if ((flags & ~unsigned{CU_CTX_FLAGS_MASK}) != 0) return CUDA_ERROR_INVALID_VALUE;
  device->primary_flags = flags;
  return CUDA_SUCCESS;
}

CUresult impl::cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int* flags, int* active) {
  Device* device = nullptr;
  if (const CUresult result = FindDevice(dev, &device)) return result;
  if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = device->primary_flags;
  *active = device->primary && device->primary->active ? 1 : 0;
  return CUDA_SUCCESS;
}

}  // namespace simcuda
