// Memory Management (Driver API reference 6.13): copies of linear memory, and of two and three dimensions.
#include "entry_points.h"
#include "tools/simcuda/driver/array.h"
#include "tools/simcuda/driver/copy.h"
#include "tools/simcuda/driver/device_table.h"
#include "tools/simcuda/driver/graph_node.h"
#include "tools/simcuda/driver/state.h"

namespace simcuda {
namespace {

uint64_t Address(const void* host) { return reinterpret_cast<uint64_t>(host); }

Copy Linear(uint64_t to, Expected to_kind, uint64_t from, Expected from_kind, size_t bytes) {
  Copy copy;
  copy.to = {to, bytes, bytes, to_kind};
  copy.from = {from, bytes, bytes, from_kind};
  copy.width = bytes;
  return copy;
}

// The synchronous functions work in the default stream of their variant.
CUresult CopyNow(const Copy& copy) {
  std::shared_ptr<Stream> stream;
  if (const CUresult result = FindStream(nullptr, &stream)) return result;
  return QueueCopy(stream, copy, Timing::kSynchronous);
}

CUresult CopyLater(const Copy& copy, CUstream handle) {
  SIMCUDA_CURRENT(context);
  std::shared_ptr<Stream> stream;
  if (const CUresult result = FindStream(handle, &stream)) return result;
  return QueueCopy(stream, copy, Timing::kAsynchronous);
}

constexpr Expected kHost = Expected::kHost, kDevice = Expected::kDevice, kAny = Expected::kAny;

CUresult FindContexts(CUcontext first, CUcontext second, Context** a, Context** b) {
  if (const CUresult result = ContextOrCurrent(first, a)) return result;
  return ContextOrCurrent(second, b);
}

}  // namespace

CUresult impl::cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) {
  return CopyNow(Linear(dst, kAny, src, kAny, ByteCount));
}

CUresult impl::cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream) {
  return CopyLater(Linear(dst, kAny, src, kAny, ByteCount), hStream);
}

CUresult impl::cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount) {
  return CopyNow(Linear(dstDevice, kDevice, Address(srcHost), kHost, ByteCount));
}

CUresult impl::cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount, CUstream hStream) {
  return CopyLater(Linear(dstDevice, kDevice, Address(srcHost), kHost, ByteCount), hStream);
}

CUresult impl::cuMemcpyDtoH_v2(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount) {
  return CopyNow(Linear(Address(dstHost), kHost, srcDevice, kDevice, ByteCount));
}

CUresult impl::cuMemcpyDtoHAsync_v2(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream) {
  return CopyLater(Linear(Address(dstHost), kHost, srcDevice, kDevice, ByteCount), hStream);
}

CUresult impl::cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount) {
  return CopyNow(Linear(dstDevice, kDevice, srcDevice, kDevice, ByteCount));
}

CUresult impl::cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream) {
  return CopyLater(Linear(dstDevice, kDevice, srcDevice, kDevice, ByteCount), hStream);
}

// "Serialized with respect to all pending and future asynchronous work into the current context, srcContext and
// dstContext": all of it is waited for, and the copy is complete on return.
CUresult impl::cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
                            size_t ByteCount) {
  Context *to = nullptr, *from = nullptr;
  SIMCUDA_CURRENT(context);
  if (const CUresult result = FindContexts(dstContext, srcContext, &to, &from)) return result;
  Engine& engine = State::Get().engine;
  for (Context* each : {context, to, from}) engine.WaitContext(*each);
  const CUresult result = CopyNow(Linear(dstDevice, kDevice, srcDevice, kDevice, ByteCount));
  if (result == CUDA_SUCCESS) engine.WaitContext(*context);
  return result;
}

CUresult impl::cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                                 CUcontext srcContext, size_t ByteCount, CUstream hStream) {
  Context *to = nullptr, *from = nullptr;
  if (const CUresult result = FindContexts(dstContext, srcContext, &to, &from)) return result;
  return CopyLater(Linear(dstDevice, kDevice, srcDevice, kDevice, ByteCount), hStream);
}

namespace {

// What both sides of CUDA_MEMCPY2D, CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER say.
struct SideParams {
  CUmemorytype type;
  const void* host;
  CUdeviceptr device;
  CUarray array;
  size_t x, y, z;
  size_t pitch, height;  // 0: as the copy's own
};

template <typename Params>
SideParams Source(const Params& p) {
  return {p.srcMemoryType, p.srcHost, p.srcDevice, p.srcArray, p.srcXInBytes, p.srcY, 0, p.srcPitch, 0};
}
template <typename Params>
SideParams Target(const Params& p) {
  return {p.dstMemoryType, p.dstHost, p.dstDevice, p.dstArray, p.dstXInBytes, p.dstY, 0, p.dstPitch, 0};
}

// Where the side lies. flat: a copy of two dimensions, whose only row may be longer than the pitch.
// Errors: INVALID_VALUE for pitches and heights that do not hold the copy; those of ArraySide.
CUresult FillSide(const SideParams& p, const Copy& copy, bool flat, CopySide* side) {
  switch (p.type) {
    case CU_MEMORYTYPE_ARRAY:
      return ArraySide(p.array, p.x, p.y, p.z, copy, side);
    case CU_MEMORYTYPE_HOST:
      side->address = Address(p.host);
      side->expected = kHost;
      break;
    case CU_MEMORYTYPE_DEVICE:
      side->address = p.device;
      side->expected = kDevice;
      break;
    case CU_MEMORYTYPE_UNIFIED:
      side->address = p.device;
      side->expected = kAny;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  // "An error if any pitch is greater than the maximum allowed (CU_DEVICE_ATTRIBUTE_MAX_PITCH)."
  if (p.pitch > kMaxPitch) return CUDA_ERROR_INVALID_VALUE;
  side->pitch = p.pitch != 0 ? p.pitch : copy.width + p.x;
  const size_t height = p.height != 0 ? p.height : copy.height + p.y;
  if (side->pitch < p.x + copy.width && !(flat && copy.height <= 1)) return CUDA_ERROR_INVALID_VALUE;
  if (height < p.y + copy.height) return CUDA_ERROR_INVALID_VALUE;
  size_t before = 0;
  if (__builtin_mul_overflow(side->pitch, height, &side->slice) ||
      !ExtentOf(p.x, p.y + 1, side->pitch, p.z + 1, side->slice, &before) ||
      __builtin_add_overflow(side->address, before, &side->address)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult FromParams(const CUDA_MEMCPY2D& p, Copy* copy) {
  copy->width = p.WidthInBytes;
  copy->height = p.Height;
  if (const CUresult result = FillSide(Source(p), *copy, /*flat=*/true, &copy->from)) return result;
  return FillSide(Target(p), *copy, /*flat=*/true, &copy->to);
}

template <typename Params>
CUresult FromParams3D(const Params& p, Copy* copy) {
  if (p.srcLOD != 0 || p.dstLOD != 0) return CUDA_ERROR_INVALID_VALUE;
  copy->width = p.WidthInBytes;
  copy->height = p.Height;
  copy->depth = p.Depth;
  SideParams from = Source(p), to = Target(p);
  from.z = p.srcZ;
  from.height = p.srcHeight;
  to.z = p.dstZ;
  to.height = p.dstHeight;
  if (const CUresult result = FillSide(from, *copy, /*flat=*/false, &copy->from)) return result;
  return FillSide(to, *copy, /*flat=*/false, &copy->to);
}

}  // namespace

CUresult MakeMemcpy(Context& context, const CUDA_MEMCPY3D& params, std::shared_ptr<Work>* work) {
  Copy copy;
  if (const CUresult result = FromParams3D(params, &copy)) return result;
  if (copy.width == 0 || copy.height == 0 || copy.depth == 0) return CUDA_ERROR_INVALID_VALUE;
  return MakeNodeCopy(context, copy, work);
}

CUresult impl::cuMemcpy2D_v2(const CUDA_MEMCPY2D* pCopy) {
  Copy copy;
  if (pCopy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = FromParams(*pCopy, &copy)) return result;
  return CopyNow(copy);
}

CUresult impl::cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* pCopy) { return impl::cuMemcpy2D_v2(pCopy); }

CUresult impl::cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* pCopy, CUstream hStream) {
  Copy copy;
  if (pCopy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = FromParams(*pCopy, &copy)) return result;
  return CopyLater(copy, hStream);
}

CUresult impl::cuMemcpy3D_v2(const CUDA_MEMCPY3D* pCopy) {
  Copy copy;
  if (pCopy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = FromParams3D(*pCopy, &copy)) return result;
  return CopyNow(copy);
}

CUresult impl::cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* pCopy, CUstream hStream) {
  Copy copy;
  if (pCopy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = FromParams3D(*pCopy, &copy)) return result;
  return CopyLater(copy, hStream);
}

CUresult impl::cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* pCopy) {
  Copy copy;
  if (pCopy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = FromParams3D(*pCopy, &copy)) return result;
  return CopyNow(copy);
}

CUresult impl::cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* pCopy, CUstream hStream) {
  Copy copy;
  if (pCopy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = FromParams3D(*pCopy, &copy)) return result;
  return CopyLater(copy, hStream);
}

}  // namespace simcuda
