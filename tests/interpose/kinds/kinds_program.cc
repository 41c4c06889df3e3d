// Asks for memory of every kind that the simulated driver has, once each, keeps all of it, and ends without freeing.
#include <cuda.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

void Must(const char* what, CUresult result) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "%s: %d\n", what, static_cast<int>(result));
  std::exit(1);
}

CUmemAllocationProp OnDevice() {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  return properties;
}

void Linear() {
  CUdeviceptr address = 0;
  std::size_t pitch = 0;
  Must("device", cuMemAlloc(&address, 3 * kMiB));
  Must("pitched", cuMemAllocPitch(&address, &pitch, 512, 100, 4));
  Must("managed", cuMemAllocManaged(&address, 5 * kMiB, CU_MEM_ATTACH_GLOBAL));
  CUstream stream = nullptr;
  Must("stream", cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  Must("stream-ordered", cuMemAllocAsync(&address, 6 * kMiB, stream));
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemoryPool pool = nullptr;
  Must("pool", cuMemPoolCreate(&pool, &properties));
  Must("from pool", cuMemAllocFromPoolAsync(&address, 7 * kMiB, pool, stream));
}

void Arrays() {
  CUDA_ARRAY3D_DESCRIPTOR descriptor = {};
  descriptor.Width = 100;
  descriptor.Height = 50;
  descriptor.Format = CU_AD_FORMAT_FLOAT;
  descriptor.NumChannels = 2;
  CUarray array = nullptr;
  CUmipmappedArray mipmapped = nullptr;
  Must("array", cuArray3DCreate(&array, &descriptor));
  Must("mipmapped array", cuMipmappedArrayCreate(&mipmapped, &descriptor, 2));
}

void Host() {
  void* pinned = nullptr;
  Must("pinned", cuMemHostAlloc(&pinned, 9 * kMiB, 0));
  void* pages = mmap(nullptr, kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  Must("registered", cuMemHostRegister(pages, kMiB, 0));
}

void Handles() {
  const CUmemAllocationProp properties = OnDevice();
  CUmemGenericAllocationHandle physical = 0;
  CUmemGenericAllocationHandle object = 0;
  Must("physical", cuMemCreate(&physical, 4 * kMiB, &properties, 0));
  CUmulticastObjectProp multicast = {};
  multicast.numDevices = 1;
  multicast.size = 8 * kMiB;
  Must("multicast", cuMulticastCreate(&object, &multicast));
}

}  // namespace

int main() {
  CUcontext context = nullptr;
  Must("init", cuInit(0));
  Must("context", cuDevicePrimaryCtxRetain(&context, 0));
  Must("current", cuCtxSetCurrent(context));
  Linear();
  Arrays();
  Host();
  Handles();
  return 0;
}
