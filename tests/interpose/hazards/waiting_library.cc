// A library whose constructor starts a thread that uses CUDA, and waits for it: the loader's lock is held meanwhile.
#include <cuda.h>

#include <thread>

namespace {

[[gnu::constructor]] void WaitForWorker() {
  std::thread([] {
    CUcontext context = nullptr;
    CUdevice device = 0;
    CUdeviceptr block = 0;
    if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS) return;
    if (cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS || cuCtxSetCurrent(context) != CUDA_SUCCESS) return;
    if (cuMemAlloc(&block, 5000) == CUDA_SUCCESS) cuMemFree(block);
  }).join();
}

}  // namespace
