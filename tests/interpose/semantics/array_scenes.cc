// CUDA arrays: their shapes, bytes and errors, beside blocks of the pool, and when the device is full of idle memory.
// Source: CUDA Driver API, Memory Management (cuArrayCreate and what follows), Texture and Surface Object Management.
#include <cstring>
#include <numeric>
#include <vector>

#include "tests/interpose/semantics/scene.h"

namespace semantics {
namespace {

CUDA_ARRAY3D_DESCRIPTOR Describe(std::size_t width, std::size_t height, std::size_t depth, unsigned flags = 0) {
  CUDA_ARRAY3D_DESCRIPTOR descriptor = {};
  descriptor.Width = width;
  descriptor.Height = height;
  descriptor.Depth = depth;
  descriptor.Format = CU_AD_FORMAT_UNSIGNED_INT32;
  descriptor.NumChannels = 1;
  descriptor.Flags = flags;
  return descriptor;
}

CUarray Create(const CUDA_ARRAY3D_DESCRIPTOR& descriptor) {
  CUarray array = nullptr;
  Must("create", cuArray3DCreate(&array, &descriptor));
  return array;
}

CUDA_MEMCPY3D Box(std::size_t width, std::size_t height, std::size_t depth) {
  CUDA_MEMCPY3D copy = {};
  copy.WidthInBytes = width * 4;
  copy.Height = height;
  copy.Depth = depth;
  return copy;
}

void FromHost(CUDA_MEMCPY3D* copy, const void* host) {
  copy->srcMemoryType = CU_MEMORYTYPE_HOST;
  copy->srcHost = host;
}
void ToHost(CUDA_MEMCPY3D* copy, void* host) {
  copy->dstMemoryType = CU_MEMORYTYPE_HOST;
  copy->dstHost = host;
}
void FromArray(CUDA_MEMCPY3D* copy, CUarray array) {
  copy->srcMemoryType = CU_MEMORYTYPE_ARRAY;
  copy->srcArray = array;
}
void ToArray(CUDA_MEMCPY3D* copy, CUarray array) {
  copy->dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy->dstArray = array;
}

std::vector<unsigned> Numbers(std::size_t count, unsigned first) {
  std::vector<unsigned> numbers(count);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

unsigned Sum(const std::vector<unsigned>& numbers) {
  unsigned sum = 0;
  for (const unsigned number : numbers) sum = sum * 31 + number;
  return sum;
}

void Descriptors() {
  StartDevice();
  for (const unsigned flags :
       {0u, static_cast<unsigned>(CUDA_ARRAY3D_LAYERED), static_cast<unsigned>(CUDA_ARRAY3D_CUBEMAP)}) {
    for (const std::size_t height : {0u, 5u, 8u}) {
      for (const std::size_t depth : {0u, 6u}) {
        const CUDA_ARRAY3D_DESCRIPTOR asked = Describe(8, height, depth, flags);
        CUarray array = nullptr;
        const CUresult result = cuArray3DCreate(&array, &asked);
        Print("flags %u height %zu depth %zu: %d", flags, height, depth, result);
        if (result != CUDA_SUCCESS) continue;
        CUDA_ARRAY3D_DESCRIPTOR seen = {};
        Say("descriptor", cuArray3DGetDescriptor(&seen, array));
        Print("%zu %zu %zu %u", seen.Width, seen.Height, seen.Depth, seen.Flags);
        Say("destroy", cuArrayDestroy(array));
      }
    }
  }
  CUarray none = nullptr;
  const CUDA_ARRAY3D_DESCRIPTOR empty = Describe(0, 4, 0);
  Say("no width", cuArray3DCreate(&none, &empty));
  Say("no descriptor", cuArrayCreate(&none, nullptr));
}
const Scene kDescriptors("descriptors", "", Descriptors);

// Through arrays of each shape, between blocks of the pool that must not be touched.
void Bytes() {
  StartDevice();
  for (int round = 0; round < 3; ++round) {
    const CUdeviceptr before = Allocate(3000);
    Fill(before, 0x11, 3000);
    const CUarray box = Create(Describe(16, 6, 4));
    const CUdeviceptr after = Allocate(16 * 6 * 4 * 4);
    Fill(after, 0x22, 16 * 6 * 4 * 4);
    std::vector<unsigned> in = Numbers(16 * 6 * 4, 1 + 1000 * round);
    std::vector<unsigned> out(in.size());
    CUDA_MEMCPY3D copy = Box(16, 6, 4);
    FromHost(&copy, in.data());
    ToArray(&copy, box);
    Say("in", cuMemcpy3D(&copy));
    copy = Box(16, 6, 4);
    FromArray(&copy, box);
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = after;
    Say("to a block", cuMemcpy3D(&copy));
    Say("read", cuMemcpyDtoH(out.data(), after, out.size() * 4));
    Expect(in == out, "what went in");
    Print("sum %u", Sum(out));
    copy = Box(3, 2, 2);
    FromArray(&copy, box);
    copy.srcXInBytes = 8;
    copy.srcY = 1;
    copy.srcZ = 2;
    std::vector<unsigned> part(12);
    ToHost(&copy, part.data());
    Say("part", cuMemcpy3D(&copy));
    Print("sum %u", Sum(part));
    Say("free the block", cuMemFree(after));
    const CUarray other = Create(Describe(16, 6, 4));
    copy = Box(16, 6, 4);
    FromArray(&copy, box);
    ToArray(&copy, other);
    Say("across", cuMemcpy3D(&copy));
    copy = Box(16, 6, 4);
    FromArray(&copy, other);
    std::fill(out.begin(), out.end(), 0u);
    ToHost(&copy, out.data());
    Say("out", cuMemcpy3D(&copy));
    Expect(in == out, "what went across");
    Expect(Holds(before, 0x11, 3000), "the block before as it was");
    Say("destroy", cuArrayDestroy(box));
    Say("destroy", cuArrayDestroy(box));
    Say("destroy", cuArrayDestroy(other));
    Say("free", cuMemFree(before));
  }
}
const Scene kBytes("bytes", "", Bytes);

// The block is freed while the copy into the array is queued: nobody may be given it before.
void Queued() {
  StartDevice();
  CUstream stream = NewStream();
  const CUarray row = Create(Describe(4096, 0, 0));
  void* pinned = nullptr;
  Must("pinned", cuMemAllocHost(&pinned, 4096 * 4));
  for (unsigned round = 0; round < 6; ++round) {
    const CUdeviceptr block = Allocate(4096 * 4);
    Must("fill", cuMemsetD32Async(block, 7 + round, 4096, stream));
    CUDA_MEMCPY2D copy = {};
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = block;
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.dstArray = row;
    copy.WidthInBytes = 4096 * 4;
    copy.Height = 1;
    Say("queue", cuMemcpy2DAsync(&copy, stream));
    Say("free", cuMemFree(block));
    const CUdeviceptr next = Allocate(4096 * 4);
    Fill(next, 0xFF, 4096 * 4);
    Say("out", cuMemcpyAtoHAsync(pinned, row, 0, 4096 * 4, stream));
    Say("wait", cuStreamSynchronize(stream));
    unsigned words[2];
    std::memcpy(words, pinned, sizeof words);
    Print("words %u %u", words[0], words[1]);
    Say("free", cuMemFree(next));
  }
  Say("destroy", cuArrayDestroy(row));
}
const Scene kQueued("queued", "", Queued);

void Mipmaps() {
  StartDevice();
  const CUDA_ARRAY3D_DESCRIPTOR whole = Describe(32, 16, 0);
  CUmipmappedArray mipmapped = nullptr;
  Say("create", cuMipmappedArrayCreate(&mipmapped, &whole, 4));
  for (unsigned level = 0; level < 5; ++level) {
    CUarray array = nullptr;
    const CUresult result = cuMipmappedArrayGetLevel(&array, mipmapped, level);
    Say("level", level, result);
    if (result != CUDA_SUCCESS) continue;
    CUDA_ARRAY_DESCRIPTOR seen = {};
    Say("descriptor", cuArrayGetDescriptor(&seen, array));
    Print("%zu x %zu", seen.Width, seen.Height);
    std::vector<unsigned> in = Numbers(seen.Width * seen.Height, level * 100);
    std::vector<unsigned> out(in.size());
    CUDA_MEMCPY3D copy = Box(seen.Width, seen.Height, 1);
    FromHost(&copy, in.data());
    ToArray(&copy, array);
    Say("in", cuMemcpy3D(&copy));
    copy = Box(seen.Width, seen.Height, 1);
    FromArray(&copy, array);
    ToHost(&copy, out.data());
    Say("out", cuMemcpy3D(&copy));
    Expect(in == out, "what went in");
  }
  Say("destroy", cuMipmappedArrayDestroy(mipmapped));
}
const Scene kMipmaps("mipmaps", "", Mipmaps);

void Textures() {
  StartDevice();
  const CUarray array = Create(Describe(16, 16, 0, CUDA_ARRAY3D_SURFACE_LDST));
  CUDA_RESOURCE_DESC resource = {};
  resource.resType = CU_RESOURCE_TYPE_ARRAY;
  resource.res.array.hArray = array;
  CUDA_TEXTURE_DESC texture = {};
  texture.addressMode[0] = texture.addressMode[1] = texture.addressMode[2] = CU_TR_ADDRESS_MODE_CLAMP;
  CUtexObject object = 0;
  CUsurfObject surface = 0;
  Say("texture of an array", cuTexObjectCreate(&object, &resource, &texture, nullptr));
  CUDA_RESOURCE_DESC seen = {};
  Say("described", cuTexObjectGetResourceDesc(&seen, object));
  Print("same %d", seen.resType == CU_RESOURCE_TYPE_ARRAY && seen.res.array.hArray == array);
  Say("destroy", cuTexObjectDestroy(object));
  Say("surface", cuSurfObjectCreate(&surface, &resource));
  Say("destroy", cuSurfObjectDestroy(surface));
  // Of blocks that the pool serves: their addresses are as aligned as a driver's.
  for (const std::size_t size : {2048 * kKiB, 64 * kKiB, 4 * kKiB, 512ul}) {
    const CUdeviceptr block = Allocate(size);
    resource = {};
    resource.resType = CU_RESOURCE_TYPE_LINEAR;
    resource.res.linear.devPtr = block;
    resource.res.linear.format = CU_AD_FORMAT_FLOAT;
    resource.res.linear.numChannels = 1;
    resource.res.linear.sizeInBytes = size;
    Say("texture of a block", size, cuTexObjectCreate(&object, &resource, &texture, nullptr));
    Say("described", cuTexObjectGetResourceDesc(&seen, object));
    Print("same %d", seen.res.linear.devPtr == block && seen.res.linear.sizeInBytes == size);
    Say("destroy", cuTexObjectDestroy(object));
    Say("free", cuMemFree(block));
  }
  Say("destroy", cuArrayDestroy(array));
}
const Scene kTextures("textures", "", Textures);

// The device is filled and all of it freed: our idle memory is in the way of arrays, which must not notice.
void IdleInTheWay() {
  StartDevice();
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  Must("info", cuMemGetInfo(&free_bytes, &total));
  const std::size_t unit = free_bytes / 16 / (2 * kMiB) * (2 * kMiB);
  for (const bool waited : {true, false}) {
    std::vector<CUdeviceptr> blocks;
    CUdeviceptr block = 0;
    while (blocks.size() < 40 && cuMemAlloc(&block, unit) == CUDA_SUCCESS) blocks.push_back(block);
    Print("units %d", blocks.size() >= 15 && blocks.size() <= 17);
    for (const CUdeviceptr each : blocks) Must("free", cuMemFree(each));
    if (waited) Must("wait", cuCtxSynchronize());
    // Three quarters of the device as one array, then as a mipmapped one.
    const CUDA_ARRAY3D_DESCRIPTOR large = Describe(1024, unit * 12 / 4096, 0);
    CUarray array = nullptr;
    Say("array", cuArray3DCreate(&array, &large));
    CUarray more = nullptr;
    Say("no room for another", cuArray3DCreate(&more, &large));
    if (array != nullptr) Say("destroy", cuArrayDestroy(array));
    blocks.clear();
    while (blocks.size() < 40 && cuMemAlloc(&block, unit) == CUDA_SUCCESS) blocks.push_back(block);
    for (const CUdeviceptr each : blocks) Must("free", cuMemFree(each));
    const CUDA_ARRAY3D_DESCRIPTOR half = Describe(1024, unit * 8 / 4096, 0);
    CUmipmappedArray mipmapped = nullptr;
    Say("mipmapped array", cuMipmappedArrayCreate(&mipmapped, &half, 3));
    if (mipmapped != nullptr) Say("destroy", cuMipmappedArrayDestroy(mipmapped));
  }
}
const Scene kIdleInTheWay("idle-in-the-way", "SIMCUDA_MEMORY=256MiB", IdleInTheWay);

// An array as a node of a graph copies again with every launch.
void Captured() {
  StartDevice();
  CUstream stream = NewStream();
  const CUarray row = Create(Describe(64, 0, 0));
  const CUdeviceptr from = Allocate(256);
  const CUdeviceptr to = Allocate(256);
  CUDA_MEMCPY2D in = {};
  in.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  in.srcDevice = from;
  in.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  in.dstArray = row;
  in.WidthInBytes = 256;
  in.Height = 1;
  CUDA_MEMCPY2D out = {};
  out.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  out.srcArray = row;
  out.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  out.dstDevice = to;
  out.WidthInBytes = 256;
  out.Height = 1;
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  Say("begin", cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  Say("in", cuMemcpy2DAsync(&in, stream));
  Say("out", cuMemcpy2DAsync(&out, stream));
  Say("end", cuStreamEndCapture(stream, &graph));
  Say("instantiate", cuGraphInstantiate(&executable, graph, 0));
  for (unsigned round = 0; round < 3; ++round) {
    Fill(from, 40 + round, 256);
    Must("wait", cuCtxSynchronize());
    Say("launch", cuGraphLaunch(executable, stream));
    Say("wait", cuStreamSynchronize(stream));
    Print("word %u", ReadWord(to));
  }
  Say("destroy", cuGraphExecDestroy(executable));
  Say("destroy", cuGraphDestroy(graph));
  Say("destroy", cuArrayDestroy(row));
}
const Scene kCaptured("captured", "", Captured);

}  // namespace
}  // namespace semantics
