// Pitched memory: pitches, boxes, and a device that is full of idle memory. Source: CUDA Driver API, cuMemAllocPitch,
// cuMemcpy2D, cuMemsetD2D32.
#include <vector>

#include "tests/interpose/semantics/scene.h"

namespace semantics {
namespace {

void Shapes() {
  StartDevice();
  for (const std::size_t width : {1ul, 500ul, 512ul, 4097ul, 70'000ul}) {
    for (const std::size_t height : {1ul, 33ul}) {
      CUdeviceptr block = 0;
      std::size_t pitch = 0;
      const CUresult result = cuMemAllocPitch(&block, &pitch, width, height, 4);
      Print("%zu x %zu: %d pitch %zu", width, height, result, pitch);
      if (result != CUDA_SUCCESS) continue;
      CUdeviceptr base = 0;
      std::size_t bytes = 0;
      Say("range", cuMemGetAddressRange(&base, &bytes, block + pitch * (height - 1)));
      Print("base %d bytes %d", base == block, bytes >= pitch * height);
      std::vector<unsigned char> in(width * height), out(width * height);
      for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<unsigned char>(i * 7 + width);
      CUDA_MEMCPY2D copy = {};
      copy.srcMemoryType = CU_MEMORYTYPE_HOST;
      copy.srcHost = in.data();
      copy.srcPitch = width;
      copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
      copy.dstDevice = block;
      copy.dstPitch = pitch;
      copy.WidthInBytes = width;
      copy.Height = height;
      Say("in", cuMemcpy2D(&copy));
      // By way of a block of the pool, whose rows are packed.
      const CUdeviceptr packed = Allocate(width * height);
      copy = {};
      copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
      copy.srcDevice = block;
      copy.srcPitch = pitch;
      copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
      copy.dstDevice = packed;
      copy.dstPitch = width;
      copy.WidthInBytes = width;
      copy.Height = height;
      Say("packed", cuMemcpy2DUnaligned(&copy));
      Say("out", cuMemcpyDtoH(out.data(), packed, out.size()));
      Expect(in == out, "what went in");
      Say("free", cuMemFree(packed));
      Say("free inside", cuMemFree(block + 4));
      Say("free", cuMemFree(block));
      Say("free again", cuMemFree(block));
    }
  }
  CUdeviceptr block = 0;
  std::size_t pitch = 0;
  Say("no width", cuMemAllocPitch(&block, &pitch, 0, 4, 4));
  Say("no height", cuMemAllocPitch(&block, &pitch, 4, 0, 4));
  Say("odd elements", cuMemAllocPitch(&block, &pitch, 64, 4, 3));
}
const Scene kShapes("shapes", "", Shapes);

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
    CUdeviceptr pitched = 0;
    std::size_t pitch = 0;
    Say("full", cuMemAllocPitch(&pitched, &pitch, 4096, unit * 12 / 4096, 4));
    for (const CUdeviceptr each : blocks) Must("free", cuMemFree(each));
    if (waited) Must("wait", cuCtxSynchronize());
    Say("three quarters", cuMemAllocPitch(&pitched, &pitch, 4096, unit * 12 / 4096, 4));
    Say("set", cuMemsetD2D32(pitched, pitch, 9, 1024, unit * 12 / 4096));
    Print("word %u", ReadWord(pitched + pitch));
    Say("free", cuMemFree(pitched));
  }
}
const Scene kIdleInTheWay("idle-in-the-way", "SIMCUDA_MEMORY=256MiB", IdleInTheWay);

}  // namespace
}  // namespace semantics
