// Memory Management (Driver API reference 6.13): batches of three-dimensional copies. Copies of one batch are not
// ordered with each other; each is queued by itself.
#include "entry_points.h"
#include "tools/simcuda/driver/array.h"
#include "tools/simcuda/driver/copy.h"
#include "tools/simcuda/driver/state.h"

namespace simcuda {
namespace {

// Bytes of an element: of the array, where there is one; else 1. 0: no such array.
size_t ElementOf(const CUmemcpy3DOperand& operand) {
  if (operand.type != CU_MEMCPY_OPERAND_TYPE_ARRAY) return 1;
  const std::shared_ptr<Array> array = State::Get().arrays.arrays.Find(operand.op.array.array);
  return array ? array->element : 0;
}

CUresult FillSide(const CUmemcpy3DOperand& operand, const CUextent3D& extent, size_t element, const Copy& copy,
                  CopySide* side) {
  if (operand.type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
    const CUoffset3D& offset = operand.op.array.offset;
    return ArraySide(operand.op.array.array, offset.x * element, offset.y, offset.z, copy, side);
  }
  if (operand.type != CU_MEMCPY_OPERAND_TYPE_POINTER) return CUDA_ERROR_INVALID_VALUE;
  // "When either of these values is zero, that aspect of the operand is considered to be tightly packed."
  const size_t row = operand.op.ptr.rowLength == 0 ? extent.width : operand.op.ptr.rowLength;
  const size_t height = operand.op.ptr.layerHeight == 0 ? extent.height : operand.op.ptr.layerHeight;
  if (row < extent.width || height < extent.height) return CUDA_ERROR_INVALID_VALUE;
  *side = {operand.op.ptr.ptr, row * element, row * element * height, Expected::kAny};
  return CUDA_SUCCESS;
}

CUresult MakeCopy(const CUDA_MEMCPY3D_BATCH_OP& op, Copy* copy) {
  if (op.extent.width == 0 || op.extent.height == 0 || op.extent.depth == 0) return CUDA_ERROR_INVALID_VALUE;
  const size_t from = ElementOf(op.src), to = ElementOf(op.dst);
  if (from == 0 || to == 0) return CUDA_ERROR_INVALID_VALUE;
  const bool arrays = op.src.type == CU_MEMCPY_OPERAND_TYPE_ARRAY && op.dst.type == CU_MEMCPY_OPERAND_TYPE_ARRAY;
  if (arrays && from != to) return CUDA_ERROR_INVALID_VALUE;
  const size_t element = op.src.type == CU_MEMCPY_OPERAND_TYPE_ARRAY ? from : to;
  copy->width = op.extent.width * element;
  copy->height = op.extent.height;
  copy->depth = op.extent.depth;
  if (const CUresult result = FillSide(op.src, op.extent, element, *copy, &copy->from)) return result;
  return FillSide(op.dst, op.extent, element, *copy, &copy->to);
}

}  // namespace

CUresult impl::cuMemcpy3DBatchAsync_v2(size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList, unsigned long long flags,
                                       CUstream hStream) {
  std::shared_ptr<Stream> stream;
  if (const CUresult result = FindStream(hStream, &stream)) return result;
  // "Must not be default NULL stream."
  if (stream->legacy || numOps == 0 || opList == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  // All are looked at before the first is queued.
  std::vector<Copy> copies(numOps);
  for (size_t i = 0; i < numOps; ++i) {
    if (const CUresult result = MakeCopy(opList[i], &copies[i])) return result;
  }
  for (size_t i = 0; i < numOps; ++i) {
    const bool during_call = opList[i].srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
    const Timing timing = during_call ? Timing::kAsynchronousCapturing : Timing::kAsynchronous;
    if (const CUresult result = QueueCopy(stream, copies[i], timing)) return result;
  }
  return CUDA_SUCCESS;
}

CUresult impl::cuMemcpy3DBatchAsync(size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList, size_t* failIdx,
                                    unsigned long long flags, CUstream hStream) {
  if (failIdx != nullptr) *failIdx = SIZE_MAX;
  return impl::cuMemcpy3DBatchAsync_v2(numOps, opList, flags, hStream);
}

}  // namespace simcuda
