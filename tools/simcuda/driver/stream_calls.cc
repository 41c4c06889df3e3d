// Stream Management (Driver API reference 6.18).
#include <algorithm>
#include <memory>

#include "entry_points.h"
#include "tools/simcuda/driver/capture.h"
#include "tools/simcuda/driver/contexts.h"
#include "tools/simcuda/driver/graph_node.h"
#include "tools/simcuda/driver/queue.h"
#include "tools/simcuda/driver/state.h"

namespace simcuda {
namespace {

// Returns from the calling function unless the handle names a stream; names it `stream`.
#define SIMCUDA_STREAM(handle, stream) \
  std::shared_ptr<Stream> stream;      \
  if (const CUresult stream_error = FindStream(handle, &stream)) return stream_error

constexpr int kGreatestPriority = -5;

}  // namespace

CUresult impl::cuStreamCreateWithPriority(CUstream* phStream, unsigned int flags, int priority) {
  SIMCUDA_CURRENT(context);
  if (phStream == nullptr || (flags & ~unsigned{CU_STREAM_NON_BLOCKING}) != 0) return CUDA_ERROR_INVALID_VALUE;
  // "If the specified priority is outside the range, it will be clamped."
  const std::shared_ptr<Stream> stream = MakeStream(*context, flags, std::clamp(priority, kGreatestPriority, 0));
  *phStream = stream->handle = State::Get().streams.Add(stream);
  return CUDA_SUCCESS;
}

CUresult impl::cuStreamCreate(CUstream* phStream, unsigned int Flags) {
  return impl::cuStreamCreateWithPriority(phStream, Flags, 0);
}

// "In case the device is still doing work in the stream, the function will return immediately and the resources will be
// released automatically once the device has completed all work": the queue keeps the stream.
CUresult impl::cuStreamDestroy_v2(CUstream hStream) {
  State& state = State::Get();
  const std::shared_ptr<Stream> stream = state.streams.Find(hStream);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  CaptureStreamGone(stream);
  stream->destroyed = true;
  state.streams.Remove(hStream);
  if (stream->idle()) std::erase(stream->context->streams, stream);
  return CUDA_SUCCESS;
}

CUresult impl::cuStreamSynchronize(CUstream hStream) {
  SIMCUDA_STREAM(hStream, stream);
  State::Get().engine.WaitStream(*stream);
  return AfterSynchronization(*stream->context);
}

CUresult impl::cuStreamQuery(CUstream hStream) {
  SIMCUDA_STREAM(hStream, stream);
  Engine& engine = State::Get().engine;
  if (!engine.Query(engine.Pending(*stream))) return CUDA_ERROR_NOT_READY;
  return stream->context->sticky;
}

CUresult impl::cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags) {
  SIMCUDA_STREAM(hStream, stream);
  if ((Flags & ~unsigned{CU_EVENT_WAIT_EXTERNAL}) != 0) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<Event> event = State::Get().events.Find(hEvent);
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  bool captured = false;
  const CUresult result = CaptureWait(stream, event, (Flags & CU_EVENT_WAIT_EXTERNAL) != 0, &captured);
  if (captured || result != CUDA_SUCCESS) return result;
  const bool elsewhere = SharedEvents::Elsewhere(*event);
  if (!event->record && !elsewhere) return CUDA_SUCCESS;
  std::shared_ptr<Work> work = elsewhere ? SharedEvents::WaitingWork(*event) : NewWork("wait_event", nullptr);
  work->cost_ns = 0;
  if (!elsewhere) work->after.push_back(event->record);
  State::Get().engine.Enqueue(stream, work);
  return CUDA_SUCCESS;
}

CUresult impl::cuStreamGetPriority(CUstream hStream, int* priority) {
  SIMCUDA_STREAM(hStream, stream);
  if (priority == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *priority = stream->priority;
  return CUDA_SUCCESS;
}

CUresult impl::cuStreamGetFlags(CUstream hStream, unsigned int* flags) {
  SIMCUDA_STREAM(hStream, stream);
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = stream->flags;
  return CUDA_SUCCESS;
}

CUresult impl::cuStreamGetId(CUstream hStream, unsigned long long* streamId) {
  SIMCUDA_STREAM(hStream, stream);
  if (streamId == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *streamId = stream->id;
  return CUDA_SUCCESS;
}

CUresult impl::cuStreamGetCtx(CUstream hStream, CUcontext* pctx) {
  SIMCUDA_STREAM(hStream, stream);
  if (pctx == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pctx = stream->context->handle;
  return CUDA_SUCCESS;
}

CUresult impl::cuStreamGetCtx_v2(CUstream hStream, CUcontext* pCtx, CUgreenCtx* pGreenCtx) {
  SIMCUDA_STREAM(hStream, stream);
  if (pCtx == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pCtx = stream->context->handle;
  if (pGreenCtx != nullptr) *pGreenCtx = nullptr;  // green contexts are not simulated: no stream is of one
  return CUDA_SUCCESS;
}

CUresult impl::cuStreamGetDevice(CUstream hStream, CUdevice* device) {
  SIMCUDA_STREAM(hStream, stream);
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = stream->context->device->ordinal;
  return CUDA_SUCCESS;
}

std::shared_ptr<Work> MakeHostFunction(CUhostFn fn, void* user_data) {
  std::shared_ptr<Work> work = NewWork("host_function", [fn, user_data] {
    fn(user_data);
    return Outcome::kDone;
  });
  work->host_function = true;
  work->details = NewDetails(CU_GRAPH_NODE_TYPE_HOST, HostNode{fn, user_data});
  return work;
}

CUresult impl::cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void* userData) {
  SIMCUDA_STREAM(hStream, stream);
  if (fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  State::Get().engine.Enqueue(stream, MakeHostFunction(fn, userData));
  return CUDA_SUCCESS;
}

CUresult impl::cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void* userData, unsigned int flags) {
  SIMCUDA_STREAM(hStream, stream);
  if (callback == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const CUstream handle = stream->handle;
  std::shared_ptr<Work> work = NewWork("callback", [callback, handle, userData] {
    callback(handle, CUDA_SUCCESS, userData);
    return Outcome::kDone;
  });
  work->host_function = true;
  // A lost context still calls back, with its error (Driver API reference, cuStreamAddCallback).
  work->run_when_lost = [callback, handle, userData](CUresult error) { callback(handle, error, userData); };
  State::Get().engine.Enqueue(stream, work);
  return CUDA_SUCCESS;
}

}  // namespace simcuda
