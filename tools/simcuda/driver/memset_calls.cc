// Memory Management (Driver API reference 6.13): memsets. "The cudaMemset functions are asynchronous with respect to
// the host except when the target is pinned host memory or a Unified Memory region, in which case they are fully
// synchronous."
#include <algorithm>
#include <cstring>

#include "entry_points.h"
#include "tools/simcuda/driver/copy.h"
#include "tools/simcuda/driver/graph_node.h"
#include "tools/simcuda/driver/queue.h"
#include "tools/simcuda/driver/state.h"

namespace simcuda {
namespace {

struct Fill {
  uint64_t address = 0;
  size_t pitch = 0;  // bytes from row to row
  uint32_t value = 0;
  size_t element = 1;  // 1, 2 or 4 bytes
  size_t width = 0;    // elements
  size_t height = 1;
};

void FillRow(uint64_t address, const Fill& fill) {
  const size_t bytes = fill.width * fill.element;
  unsigned char pattern[4];
  std::memcpy(pattern, &fill.value, sizeof pattern);
  if (std::all_of(pattern, pattern + fill.element, [&](unsigned char byte) { return byte == pattern[0]; })) {
    return FillBytes(address, pattern[0], bytes, State::Get().memory.FileBacked(address));
  }
  auto* target = reinterpret_cast<unsigned char*>(address);
  for (size_t i = 0; i < bytes; i += fill.element) std::memcpy(target + i, pattern, fill.element);
}

// host_visible: the target is memory that the host reads too. Errors: INVALID_VALUE.
CUresult MakeFill(Context* context, Fill fill, std::shared_ptr<Work>* made, bool* host_visible) {
  if (fill.address % fill.element != 0 || fill.pitch % fill.element != 0) return CUDA_ERROR_INVALID_VALUE;
  size_t row = 0, extent = 0;
  if (__builtin_mul_overflow(fill.width, fill.element, &row)) return CUDA_ERROR_INVALID_VALUE;
  if (fill.height > 1 && fill.pitch < row) return CUDA_ERROR_INVALID_VALUE;
  if (!ExtentOf(row, fill.height, fill.pitch, 1, 0, &extent)) return CUDA_ERROR_INVALID_VALUE;
  Memory& memory = State::Get().memory;
  const Block* block = memory.Find(fill.address);
  if (block == nullptr || block->freeing || !memory.Covers(fill.address, extent)) return CUDA_ERROR_INVALID_VALUE;
  *host_visible = block->kind != Kind::kDevice && block->kind != Kind::kPool && block->kind != Kind::kVirtual &&
                  block->kind != Kind::kImported && block->kind != Kind::kGraph;
  auto work = NewWork("memset", [fill, extent, context] {
    if (!CheckAccess(*context, fill.address, extent)) return Outcome::kDone;
    for (size_t y = 0; y < fill.height; ++y) FillRow(fill.address + y * fill.pitch, fill);
    return Outcome::kDone;
  });
  work->cost_ns = 1500 + extent / 2000;
  work->details = NewDetails(CU_GRAPH_NODE_TYPE_MEMSET,
                             CUDA_MEMSET_NODE_PARAMS{fill.address, fill.pitch, fill.value,
                                                     static_cast<unsigned>(fill.element), fill.width, fill.height});
  *made = std::move(work);
  return CUDA_SUCCESS;
}

CUresult QueueFill(const std::shared_ptr<Stream>& stream, const Fill& fill, bool synchronous) {
  if (fill.width == 0 || fill.height == 0) return CUDA_SUCCESS;
  std::shared_ptr<Work> work;
  bool host_visible = false;
  if (const CUresult result = MakeFill(stream->context, fill, &work, &host_visible)) return result;
  Engine& engine = State::Get().engine;
  engine.Enqueue(stream, work);
  if (synchronous && host_visible) engine.Wait(work);
  return CUDA_SUCCESS;
}

CUresult FillNow(const Fill& fill) {
  std::shared_ptr<Stream> stream;
  if (const CUresult result = FindStream(nullptr, &stream)) return result;
  return QueueFill(stream, fill, true);
}

CUresult FillLater(const Fill& fill, CUstream handle) {
  SIMCUDA_CURRENT(context);
  std::shared_ptr<Stream> stream;
  if (const CUresult result = FindStream(handle, &stream)) return result;
  return QueueFill(stream, fill, false);
}

}  // namespace

CUresult MakeMemset(Context& context, const CUDA_MEMSET_NODE_PARAMS& params, std::shared_ptr<Work>* work) {
  if (params.elementSize != 1 && params.elementSize != 2 && params.elementSize != 4) return CUDA_ERROR_INVALID_VALUE;
  if (params.width == 0 || params.height == 0) return CUDA_ERROR_INVALID_VALUE;
  bool host_visible = false;
  return MakeFill(&context, {params.dst, params.pitch, params.value, params.elementSize, params.width, params.height},
                  work, &host_visible);
}

CUresult impl::cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, size_t N) {
  return FillNow({dstDevice, 0, uc, 1, N});
}
CUresult impl::cuMemsetD16_v2(CUdeviceptr dstDevice, unsigned short us, size_t N) {
  return FillNow({dstDevice, 0, us, 2, N});
}
CUresult impl::cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned int ui, size_t N) {
  return FillNow({dstDevice, 0, ui, 4, N});
}

CUresult impl::cuMemsetD2D8_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height) {
  return FillNow({dstDevice, dstPitch, uc, 1, Width, Height});
}
CUresult impl::cuMemsetD2D16_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width,
                                size_t Height) {
  return FillNow({dstDevice, dstPitch, us, 2, Width, Height});
}
CUresult impl::cuMemsetD2D32_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height) {
  return FillNow({dstDevice, dstPitch, ui, 4, Width, Height});
}

CUresult impl::cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream) {
  return FillLater({dstDevice, 0, uc, 1, N}, hStream);
}
CUresult impl::cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream) {
  return FillLater({dstDevice, 0, us, 2, N}, hStream);
}
CUresult impl::cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream) {
  return FillLater({dstDevice, 0, ui, 4, N}, hStream);
}
CUresult impl::cuMemsetD2D8Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height,
                                 CUstream hStream) {
  return FillLater({dstDevice, dstPitch, uc, 1, Width, Height}, hStream);
}
CUresult impl::cuMemsetD2D16Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width,
                                  size_t Height, CUstream hStream) {
  return FillLater({dstDevice, dstPitch, us, 2, Width, Height}, hStream);
}
CUresult impl::cuMemsetD2D32Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height,
                                  CUstream hStream) {
  return FillLater({dstDevice, dstPitch, ui, 4, Width, Height}, hStream);
}

}  // namespace simcuda
