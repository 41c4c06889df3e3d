// Stream Memory Operations (Driver API reference 6.21), stream attributes and events of whole contexts.
#include <cstring>
#include <memory>

#include "entry_points.h"
#include "tools/simcuda/driver/capture.h"
#include "tools/simcuda/driver/context.h"
#include "tools/simcuda/driver/copy.h"
#include "tools/simcuda/driver/queue.h"
#include "tools/simcuda/driver/state.h"

namespace simcuda {
namespace {

struct MemoryOperation {
  bool wait = false;
  CUdeviceptr address = 0;
  uint64_t value = 0;
  size_t bytes = 4;
  unsigned flags = 0;
};

bool Satisfied(const MemoryOperation& operation, uint64_t seen) {
  const bool wide = operation.bytes == 8;
  switch (operation.flags & 3u) {
    case CU_STREAM_WAIT_VALUE_GEQ:  // cyclic
      return wide ? static_cast<int64_t>(seen - operation.value) >= 0
                  : static_cast<int32_t>(static_cast<uint32_t>(seen) - static_cast<uint32_t>(operation.value)) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
      return seen == operation.value;
    case CU_STREAM_WAIT_VALUE_AND:
      return (seen & operation.value) != 0;
    default: {
      const uint64_t nor = ~(seen | operation.value);
      return wide ? nor != 0 : static_cast<uint32_t>(nor) != 0;
    }
  }
}

// The other side of the word is the host or another stream's work: atomics, as the documentation's fences ask for.
Outcome Perform(const MemoryOperation& operation, Context& context) {
  if (!CheckAccess(context, operation.address, operation.bytes)) return Outcome::kDone;
  if (operation.bytes == 8) {
    auto* word = reinterpret_cast<uint64_t*>(operation.address);
    if (!operation.wait) return __atomic_store_n(word, operation.value, __ATOMIC_SEQ_CST), Outcome::kDone;
    return Satisfied(operation, __atomic_load_n(word, __ATOMIC_SEQ_CST)) ? Outcome::kDone : Outcome::kAgain;
  }
  auto* word = reinterpret_cast<uint32_t*>(operation.address);
  const auto value = static_cast<uint32_t>(operation.value);
  if (!operation.wait) return __atomic_store_n(word, value, __ATOMIC_SEQ_CST), Outcome::kDone;
  return Satisfied(operation, __atomic_load_n(word, __ATOMIC_SEQ_CST)) ? Outcome::kDone : Outcome::kAgain;
}

CUresult Check(const MemoryOperation& operation) {
  const unsigned known = operation.wait ? 3u | CU_STREAM_WAIT_VALUE_FLUSH : 0u;
  if ((operation.flags & ~known) != 0 || operation.address % operation.bytes != 0) return CUDA_ERROR_INVALID_VALUE;
  if ((operation.flags & CU_STREAM_WAIT_VALUE_FLUSH) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  return State::Get().memory.Covers(operation.address, operation.bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult Queue(CUstream handle, const MemoryOperation& operation) {
  std::shared_ptr<Stream> stream;
  if (const CUresult result = FindStream(handle, &stream)) return result;
  if (const CUresult result = Check(operation)) return result;
  Context* context = stream->context;
  State::Get().engine.Enqueue(stream, NewWork(operation.wait ? "wait_value" : "write_value",
                                              [operation, context] { return Perform(operation, *context); }));
  return CUDA_SUCCESS;
}

// Errors: NOT_SUPPORTED for flushes and barriers between devices.
CUresult FromParams(const CUstreamBatchMemOpParams& params, MemoryOperation* operation) {
  switch (params.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      *operation = {true, params.waitValue.address, params.waitValue.value, 4, params.waitValue.flags};
      return CUDA_SUCCESS;
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      *operation = {true, params.waitValue.address, params.waitValue.value64, 8, params.waitValue.flags};
      return CUDA_SUCCESS;
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      *operation = {false, params.writeValue.address, params.writeValue.value, 4, params.writeValue.flags};
      return CUDA_SUCCESS;
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      *operation = {false, params.writeValue.address, params.writeValue.value64, 8, params.writeValue.flags};
      return CUDA_SUCCESS;
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
    case CU_STREAM_MEM_OP_BARRIER:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult FindStreamAndEvent(CUcontext handle, CUevent event, Context** context, std::shared_ptr<Event>* found) {
  if (const CUresult result = ContextOrCurrent(handle, context)) return result;
  *found = State::Get().events.Find(event);
  return *found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

}  // namespace

CUresult impl::cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags) {
  return Queue(stream, {true, addr, value, 4, flags});
}
CUresult impl::cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags) {
  return Queue(stream, {true, addr, value, 8, flags});
}
CUresult impl::cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags) {
  return Queue(stream, {false, addr, value, 4, flags});
}
CUresult impl::cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags) {
  return Queue(stream, {false, addr, value, 8, flags});
}

CUresult impl::cuStreamBatchMemOp_v2(CUstream stream, unsigned int count, CUstreamBatchMemOpParams* paramArray,
                                     unsigned int flags) {
  if (paramArray == nullptr || count == 0 || count > 256 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  std::vector<MemoryOperation> operations(count);
  for (unsigned i = 0; i < count; ++i) {
    if (const CUresult result = FromParams(paramArray[i], &operations[i])) return result;
    if (const CUresult result = Check(operations[i])) return result;
  }
  for (const MemoryOperation& operation : operations) {
    if (const CUresult result = Queue(stream, operation)) return result;
  }
  return CUDA_SUCCESS;
}

// Attributes are hints for caches and schedulers: kept and returned.
CUresult impl::cuStreamSetAttribute(CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue* value_in) {
  std::shared_ptr<Stream> stream;
  if (const CUresult result = FindStream(hStream, &stream)) return result;
  if (value_in == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (attr == CU_LAUNCH_ATTRIBUTE_PRIORITY) return CUDA_ERROR_INVALID_VALUE;  // fixed when the stream is made
  stream->attributes[attr] = *value_in;
  return CUDA_SUCCESS;
}

CUresult impl::cuStreamGetAttribute(CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue* value_out) {
  std::shared_ptr<Stream> stream;
  if (const CUresult result = FindStream(hStream, &stream)) return result;
  if (value_out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto known = stream->attributes.find(attr);
  *value_out = known == stream->attributes.end() ? CUstreamAttrValue{} : known->second;
  if (attr == CU_LAUNCH_ATTRIBUTE_PRIORITY) value_out->priority = stream->priority;
  return CUDA_SUCCESS;
}

CUresult impl::cuStreamCopyAttributes(CUstream dst, CUstream src) {
  std::shared_ptr<Stream> to, from;
  if (const CUresult result = FindStream(dst, &to)) return result;
  if (const CUresult result = FindStream(src, &from)) return result;
  to->attributes = from->attributes;
  return CUDA_SUCCESS;
}

// The event is recorded after everything that is queued in the context now.
CUresult impl::cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent) {
  Context* context = nullptr;
  std::shared_ptr<Event> event;
  if (const CUresult result = FindStreamAndEvent(hCtx, hEvent, &context, &event)) return result;
  if (event->context != context) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult result = CheckContextUse(*context)) return result;
  std::shared_ptr<Work> work = NewWork("record", nullptr);
  work->cost_ns = 0;
  for (const auto& stream : context->streams) {
    if (!stream->idle()) work->after.push_back(stream->queue.back());
  }
  event->captured = nullptr;
  if (event->shared) State::Get().shared_events.Recording(*event->shared, work);
  event->record = State::Get().engine.Enqueue(context->legacy, work);
  return CUDA_SUCCESS;
}

// Everything that is queued in the context's streams from now on waits for the event.
CUresult impl::cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent) {
  Context* context = nullptr;
  std::shared_ptr<Event> event;
  if (const CUresult result = FindStreamAndEvent(hCtx, hEvent, &context, &event)) return result;
  if (const CUresult result = CheckContextUse(*context)) return result;
  if (event->captured && !event->captured->capture->ended) {
    event->captured->capture->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  const bool elsewhere = SharedEvents::Elsewhere(*event);
  if (!event->record && !elsewhere) return CUDA_SUCCESS;
  for (const auto& stream : std::vector<std::shared_ptr<Stream>>(context->streams)) {
    std::shared_ptr<Work> work = elsewhere ? SharedEvents::WaitingWork(*event) : NewWork("wait_event", nullptr);
    work->cost_ns = 0;
    if (!elsewhere) work->after.push_back(event->record);
    State::Get().engine.Enqueue(stream, work);
  }
  return CUDA_SUCCESS;
}

}  // namespace simcuda
