// What a program reads from memory that it has not written: on the real driver anything, with CUHEAP_FILL (and on the
// simulated driver SIMCUDA_FILL) one byte, whatever lay there before. Prints which bytes a block holds, never an
// address.
#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kSizes[] = {1, 100, 512, 1000, 70'001, kMiB, 3 * kMiB, 5 * kMiB + 1};

void Must(const char* what, CUresult result) {
  if (result == CUDA_SUCCESS) return;
  std::printf("%s failed with %d\n", what, static_cast<int>(result));
  std::exit(1);
}

void Start() {
  CUcontext context = nullptr;
  CUdevice device = 0;
  Must("cuInit", cuInit(0));
  Must("cuDeviceGet", cuDeviceGet(&device, 0));
  Must("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&context, device));
  Must("cuCtxSetCurrent", cuCtxSetCurrent(context));
}

CUstream NewStream() {
  CUstream stream = nullptr;
  Must("cuStreamCreate", cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

void Show(const char* what, const std::vector<unsigned char>& bytes) {
  std::printf("%s:", what);
  std::array<bool, 256> seen{};
  for (const unsigned char byte : bytes) seen[byte] = true;
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (seen[byte]) std::printf(" %02x", byte);
  }
  std::printf("\n");
}

// The block's bytes through a stream that waits for no other.
void ShowBlock(const char* what, CUdeviceptr address, std::size_t size, CUstream stream) {
  std::vector<unsigned char> bytes(size);
  Must("cuMemcpyDtoHAsync", cuMemcpyDtoHAsync(bytes.data(), address, size, stream));
  Must("cuStreamSynchronize", cuStreamSynchronize(stream));
  Show(what, bytes);
}

CUdeviceptr Allocate(std::size_t size) {
  CUdeviceptr address = 0;
  Must("cuMemAlloc", cuMemAlloc(&address, size));
  return address;
}

CUdeviceptr AllocateIn(CUstream stream, std::size_t size) {
  CUdeviceptr address = 0;
  Must("cuMemAllocAsync", cuMemAllocAsync(&address, size, stream));
  return address;
}

// Memory that other contents had before, of every size, twice.
int Synchronous() {
  Start();
  const CUstream stream = NewStream();
  for (int round = 0; round < 3; ++round) {
    for (const std::size_t size : kSizes) {
      const CUdeviceptr block = Allocate(size);
      ShowBlock("synchronous", block, size, stream);
      Must("cuMemsetD8Async", cuMemsetD8Async(block, 0x11, size, stream));
      Must("cuMemFree", cuMemFree(block));
    }
    Must("cuCtxSynchronize", cuCtxSynchronize());
  }
  return 0;
}

int StreamOrdered() {
  Start();
  const CUstream streams[] = {NewStream(), NewStream(), nullptr, CU_STREAM_PER_THREAD};
  for (int round = 0; round < 3; ++round) {
    for (const CUstream stream : streams) {
      for (const std::size_t size : kSizes) {
        const CUdeviceptr block = AllocateIn(stream, size);
        if (round % 2 == 0) ShowBlock("stream-ordered", block, size, stream);
        Must("cuMemsetD8Async", cuMemsetD8Async(block, 0x22, size, stream));
        Must("cuMemFreeAsync", cuMemFreeAsync(block, stream));
      }
    }
  }
  Must("cuCtxSynchronize", cuCtxSynchronize());
  return 0;
}

// Blocks that are freed without a look at them, some after their stream is gone, while the stream is busy: a fill that
// comes late must not land in the next owner's bytes.
int FreedUnseen() {
  Start();
  const CUstream other = NewStream();
  const std::size_t size = 3 * kMiB;
  for (const bool destroy : {false, true}) {
    const CUstream stream = NewStream();
    const CUdeviceptr busy = AllocateIn(stream, 64 * kMiB);
    Must("cuMemsetD8Async", cuMemsetD8Async(busy, 0x33, 64 * kMiB, stream));
    const CUdeviceptr unseen = AllocateIn(stream, size);
    if (destroy) Must("cuStreamDestroy", cuStreamDestroy(stream));
    Must("cuMemFree", cuMemFree(unseen));
    const CUdeviceptr next = AllocateIn(other, size);
    Must("cuMemsetD8Async", cuMemsetD8Async(next, 0x44, size, other));
    Must("cuStreamSynchronize", cuStreamSynchronize(other));
    Must("cuCtxSynchronize", cuCtxSynchronize());
    ShowBlock("written", next, size, other);
    Must("cuMemFree", cuMemFree(busy));
    Must("cuMemFree", cuMemFree(next));
  }
  return 0;
}

// What the pool does not serve. With SIMCUDA_FILL the simulated driver fills it.
int Others() {
  Start();
  const CUstream stream = NewStream();
  CUdeviceptr pitched = 0, managed = 0, range = 0;
  std::size_t pitch = 0;
  Must("cuMemAllocPitch", cuMemAllocPitch(&pitched, &pitch, 1000, 7, 4));
  ShowBlock("pitched", pitched, pitch * 7, stream);
  Must("cuMemAllocManaged", cuMemAllocManaged(&managed, 5000, CU_MEM_ATTACH_GLOBAL));
  ShowBlock("managed", managed, 5000, stream);
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  std::size_t page = 0;
  Must("granularity", cuMemGetAllocationGranularity(&page, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CUmemGenericAllocationHandle handle = 0;
  Must("cuMemAddressReserve", cuMemAddressReserve(&range, page, 0, 0, 0));
  Must("cuMemCreate", cuMemCreate(&handle, page, &properties, 0));
  Must("cuMemMap", cuMemMap(range, page, 0, handle, 0));
  const CUmemAccessDesc access{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  Must("cuMemSetAccess", cuMemSetAccess(range, page, &access, 1));
  ShowBlock("virtual", range, page, stream);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const char* scene = argc == 2 ? argv[1] : "";
  if (std::strcmp(scene, "synchronous") == 0) return Synchronous();
  if (std::strcmp(scene, "stream-ordered") == 0) return StreamOrdered();
  if (std::strcmp(scene, "freed-unseen") == 0) return FreedUnseen();
  if (std::strcmp(scene, "others") == 0) return Others();
  std::fprintf(stderr, "usage: %s synchronous|stream-ordered|freed-unseen|others\n", argv[0]);
  return 2;
}
