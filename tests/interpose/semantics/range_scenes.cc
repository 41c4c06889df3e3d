// Memsets and copies of ranges: whole, at the edge, across neighbouring blocks, of freed ones; pitches and 2D copies.
// That a range which leaves its block is refused is what the simulated driver does, to the byte; ours only beyond the
// last 512 bytes that the block has begun, where a neighbour may be. docs/unverified.md.
#include <cstring>
#include <vector>

#include "tests/interpose/semantics/scene.h"

namespace semantics {
namespace {

constexpr std::size_t kSizes[] = {3000, 5120, 100 * kKiB, 3 * kMiB};

void Fills() {
  StartDevice();
  for (const std::size_t bytes : kSizes) {
    const CUdeviceptr before = Allocate(bytes);
    const CUdeviceptr block = Allocate(bytes);
    const CUdeviceptr after = Allocate(bytes);
    for (const CUdeviceptr each : {before, block, after}) Fill(each, 0x0A0A0A0A, bytes);
    Say("whole", cuMemsetD8(block, 1, bytes));
    Say("last byte", cuMemsetD8(block + bytes - 1, 2, 1));
    Say("a granule too many", cuMemsetD8(block, 3, bytes + 512));
    Say("a page too many", cuMemsetD8(block, 3, bytes + 4096));
    Say("across the end", cuMemsetD32(block + bytes / 8 * 4, 3, bytes / 4));
    Say("across the end, 16", cuMemsetD16(block, 3, bytes / 2 + 256));
    Say("behind", cuMemsetD8(block + bytes, 3, 0));
    Say("in a stream", cuMemsetD8Async(block, 3, bytes + 512, nullptr));
    Say("rows", cuMemsetD2D8(block, 100, 4, 100, bytes / 100));
    Say("rows too many", cuMemsetD2D8(block, 100, 4, 100, bytes / 100 + 7));
    Say("rows in a stream", cuMemsetD2D32Async(block, 400, 4, 100, bytes / 400 + 3, nullptr));
    for (const std::size_t huge : {~std::size_t{0}, ~std::size_t{15}, ~std::size_t{0} / 4 + 1, ~std::size_t{0} / 2 + 1}) {
      Say("huge", cuMemsetD8(block, 5, huge));
      Say("huge, 16", cuMemsetD16(block, 5, huge));
      Say("huge, 32", cuMemsetD32(block, 5, huge));
      Say("huge rows", cuMemsetD2D8(block, huge, 5, 16, 2));
      Say("huge rows of 32", cuMemsetD2D32(block, huge, 5, huge, 2));
      Say("huge columns", cuMemsetD2D8(block, 16, 5, 16, huge));
    }
    Say("wait", cuCtxSynchronize());
    unsigned char byte = 0;
    Say("read", cuMemcpyDtoH(&byte, block + bytes - 1, 1));
    Print("byte %x", byte);
    Expect(Holds(before, 0x0A0A0A0A, bytes) && Holds(after, 0x0A0A0A0A, bytes), "neighbours as they were");
    for (const CUdeviceptr each : {before, block, after}) Say("free", cuMemFree(each));
    Say("freed", cuMemsetD8(block, 1, 16));
    Say("freed, in a stream", cuMemsetD32Async(block, 1, 4, nullptr));
  }
}
const Scene kFills("fills", "", Fills);

void Copies() {
  StartDevice();
  std::vector<char> host(4 * kMiB, 'h');
  for (const std::size_t bytes : kSizes) {
    const CUdeviceptr before = Allocate(bytes);
    const CUdeviceptr block = Allocate(bytes);
    const CUdeviceptr after = Allocate(bytes);
    for (const CUdeviceptr each : {before, block, after}) Fill(each, 0x0A0A0A0A, bytes);
    Say("to", cuMemcpyHtoD(block, host.data(), bytes));
    Say("to, too much", cuMemcpyHtoD(block, host.data(), bytes + 512));
    Say("to, across", cuMemcpyHtoD(block + bytes / 2, host.data(), bytes));
    Say("from", cuMemcpyDtoH(host.data(), block, bytes));
    Say("from, too much", cuMemcpyDtoH(host.data(), block, bytes + 512));
    Say("within", cuMemcpyDtoD(block, block + bytes / 2, bytes / 2));
    Say("between", cuMemcpyDtoD(block, before, bytes));
    Say("between, target too small", cuMemcpyDtoD(block + 512, before, bytes));
    Say("between, source too small", cuMemcpyDtoD(block, before + 512, bytes));
    Say("any", cuMemcpy(block, before, bytes));
    Say("in a stream", cuMemcpyDtoDAsync(block, before, bytes, nullptr));
    Say("in a stream, too much", cuMemcpyDtoDAsync(block, before, bytes + 512, nullptr));
    Say("to in a stream, too much", cuMemcpyHtoDAsync(block, host.data(), bytes + 512, nullptr));
    Say("from in a stream, too much", cuMemcpyDtoHAsync(host.data(), block, bytes + 512, nullptr));
    Say("wait", cuCtxSynchronize());
    Expect(Holds(before, 0x0A0A0A0A, bytes) && Holds(after, 0x0A0A0A0A, bytes), "neighbours as they were");
    for (const CUdeviceptr each : {before, block, after}) Say("free", cuMemFree(each));
    Say("from freed", cuMemcpyDtoH(host.data(), block, 16));
    Say("to freed", cuMemcpyHtoD(block, host.data(), 16));
  }
}
const Scene kCopies("copies", "", Copies);

void StreamOrdered() {
  StartDevice();
  CUstream stream = NewStream();
  for (const std::size_t bytes : kSizes) {
    CUdeviceptr first = 0;
    CUdeviceptr second = 0;
    Must("allocate", cuMemAllocAsync(&first, bytes, stream));
    Must("allocate", cuMemAllocAsync(&second, bytes, stream));
    Must("fill", cuMemsetD8Async(first, 1, bytes, stream));
    Must("fill", cuMemsetD8Async(second, 2, bytes, stream));
    Say("too much", cuMemsetD8Async(first, 3, bytes + 512, stream));
    Say("copy", cuMemcpyDtoDAsync(first, second, bytes, stream));
    Say("copy too much", cuMemcpyDtoDAsync(first, second, bytes + 512, stream));
    Say("wait", cuStreamSynchronize(stream));
    unsigned char byte = 0;
    Say("read", cuMemcpyDtoH(&byte, second, 1));
    Print("byte %d", byte);
    Say("free", cuMemFreeAsync(first, stream));
    Say("free", cuMemFreeAsync(second, stream));
    Say("wait", cuStreamSynchronize(stream));
    Say("freed", cuMemsetD8Async(first, 3, 16, stream));
  }
}
const Scene kStreamOrdered("stream-ordered", "", StreamOrdered);

CUDA_MEMCPY2D Rows(CUdeviceptr to, std::size_t to_pitch, CUdeviceptr from, std::size_t from_pitch, std::size_t width,
                   std::size_t height) {
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = from;
  copy.srcPitch = from_pitch;
  copy.dstDevice = to;
  copy.dstPitch = to_pitch;
  copy.WidthInBytes = width;
  copy.Height = height;
  return copy;
}

void Pitched() {
  StartDevice();
  for (const std::size_t width : {std::size_t{1}, std::size_t{100}, std::size_t{512}, std::size_t{513}, 9 * kKiB}) {
    for (const unsigned element : {4u, 8u, 16u}) {
      CUdeviceptr block = 0;
      std::size_t pitch = 0;
      Say("pitched", cuMemAllocPitch(&block, &pitch, width, 7, element));
      Print("pitch %zu aligned %d", pitch, block % 512 == 0);
      Say("free", cuMemFree(block));
    }
    CUdeviceptr pitched = 0;
    std::size_t pitch = 0;
    Must("pitched", cuMemAllocPitch(&pitched, &pitch, width, 7, 4));
    const CUdeviceptr packed = Allocate(width * 7);
    const CUdeviceptr back = Allocate(width * 7);
    std::vector<unsigned char> bytes(width * 7);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i % 251);
    Must("fill", cuMemcpyHtoD(packed, bytes.data(), bytes.size()));
    CUDA_MEMCPY2D copy = Rows(pitched, pitch, packed, width, width, 7);
    Say("to pitched", cuMemcpy2D(&copy));
    copy = Rows(back, width, pitched, pitch, width, 7);
    Say("from pitched", cuMemcpy2DUnaligned(&copy));
    std::vector<unsigned char> seen(width * 7);
    Say("read", cuMemcpyDtoH(seen.data(), back, seen.size()));
    Expect(seen == bytes, "every row in its place");
    copy = Rows(back, 512 + width, pitched, pitch, width, 7);
    Say("rows too far apart", cuMemcpy2D(&copy));
    copy = Rows(packed + 512, width, pitched, pitch, width, 7);
    Say("too far", cuMemcpy2D(&copy));
    copy = Rows(back, width, pitched, pitch, width, 7);
    copy.dstY = 600;
    Say("rows down", cuMemcpy2DAsync(&copy, nullptr));
    // Pitches above CU_DEVICE_ATTRIBUTE_MAX_PITCH, also those that are meant to be negative, are documented errors.
    for (const std::size_t huge : {~std::size_t{0}, ~std::size_t{511}, ~std::size_t{0} / 2 + 1, std::size_t{1} << 31}) {
      copy = Rows(back, huge, packed, width, width, 2);
      Expect(Say("a huge pitch", cuMemcpy2D(&copy)) == CUDA_ERROR_INVALID_VALUE, "refused");
      copy = Rows(back, width, packed, width, width, 2);
      copy.dstY = huge;
      Expect(Say("far down", cuMemcpy2DUnaligned(&copy)) != CUDA_SUCCESS, "refused");
    }
    CUDA_MEMCPY3D solid = {};
    solid.srcMemoryType = solid.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    solid.srcDevice = packed;
    solid.dstDevice = back;
    solid.srcPitch = solid.dstPitch = width;
    solid.srcHeight = solid.dstHeight = 7;
    solid.WidthInBytes = width;
    solid.Height = 7;
    solid.Depth = 1;
    Say("a solid", cuMemcpy3D(&solid));
    solid.Depth = 600;
    Say("too deep", cuMemcpy3D(&solid));
    solid.Depth = 2;
    solid.dstHeight = ~std::size_t{0} / width;
    Expect(Say("planes too far apart", cuMemcpy3D(&solid)) != CUDA_SUCCESS, "refused");
    Say("wait", cuCtxSynchronize());
    for (const CUdeviceptr each : {pitched, packed, back}) Say("free", cuMemFree(each));
  }
}
const Scene kPitched("pitched", "", Pitched);

}  // namespace
}  // namespace semantics
