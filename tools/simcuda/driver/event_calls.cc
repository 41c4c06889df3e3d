// Event Management (Driver API reference 6.19).
#include <memory>

#include "entry_points.h"
#include "tools/simcuda/driver/capture.h"
#include "tools/simcuda/driver/contexts.h"
#include "tools/simcuda/driver/queue.h"
#include "tools/simcuda/driver/state.h"

namespace simcuda {

CUresult impl::cuEventCreate(CUevent* phEvent, unsigned int Flags) {
  SIMCUDA_CURRENT(context);
  constexpr unsigned kKnown = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
  if (phEvent == nullptr || (Flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  const bool shared = (Flags & CU_EVENT_INTERPROCESS) != 0;
  if (shared && (Flags & CU_EVENT_DISABLE_TIMING) == 0) return CUDA_ERROR_INVALID_VALUE;
  auto event = std::make_shared<Event>();
  if (shared && !(event->shared = State::Get().shared_events.Make())) return CUDA_ERROR_OUT_OF_MEMORY;
  event->context = context;
  event->flags = Flags;
  *phEvent = event->handle = State::Get().events.Add(event);
  return CUDA_SUCCESS;
}

CUresult impl::cuEventDestroy_v2(CUevent hEvent) {
  State& state = State::Get();
  if (!state.events.Find(hEvent)) return CUDA_ERROR_INVALID_HANDLE;
  state.events.Remove(hEvent);  // a record in progress goes on; nobody can ask for it any more
  return CUDA_SUCCESS;
}

CUresult impl::cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags) {
  State& state = State::Get();
  if ((flags & ~unsigned{CU_EVENT_RECORD_EXTERNAL}) != 0) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Stream> stream;
  if (const CUresult result = FindStream(hStream, &stream)) return result;
  const std::shared_ptr<Event> event = state.events.Find(hEvent);
  // "The event and the stream must belong to the same context."
  if (!event || event->context != stream->context) return CUDA_ERROR_INVALID_HANDLE;
  bool captured = false;
  const CUresult result = CaptureRecord(stream, event, (flags & CU_EVENT_RECORD_EXTERNAL) != 0, &captured);
  if (captured || result != CUDA_SUCCESS) return result;
  event->captured = nullptr;
  std::shared_ptr<Work> work = NewWork("record", nullptr);
  work->cost_ns = 0;
  if (event->shared) state.shared_events.Recording(*event->shared, work);
  event->record = state.engine.Enqueue(stream, work);
  return CUDA_SUCCESS;
}

CUresult impl::cuEventRecord(CUevent hEvent, CUstream hStream) {
  return impl::cuEventRecordWithFlags(hEvent, hStream, 0);
}

CUresult impl::cuEventQuery(CUevent hEvent) {
  State& state = State::Get();
  const std::shared_ptr<Event> event = state.events.Find(hEvent);
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  if (event->context->sticky != CUDA_SUCCESS) return event->context->sticky;
  if (const CUresult result = CheckEventUse(*event)) return result;
  const bool done = SharedEvents::Elsewhere(*event) ? SharedEvents::Query(*event) : state.engine.Query({event->record});
  return done ? event->context->sticky : CUDA_ERROR_NOT_READY;
}

CUresult impl::cuEventSynchronize(CUevent hEvent) {
  State& state = State::Get();
  const std::shared_ptr<Event> event = state.events.Find(hEvent);
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  if (event->context->sticky != CUDA_SUCCESS) return event->context->sticky;
  if (const CUresult result = CheckEventUse(*event)) return result;
  if (SharedEvents::Elsewhere(*event)) {
    SharedEvents::Wait(*event);
  } else {
    state.engine.Wait(event->record);
  }
  return AfterSynchronization(*event->context);
}

// On the simulated clock: each piece of work has a cost (docs/simcuda.md), so times are the same in every run and
// order.
CUresult impl::cuEventElapsedTime_v2(float* pMilliseconds, CUevent hStart, CUevent hEnd) {
  State& state = State::Get();
  if (pMilliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<Event> start = state.events.Find(hStart), end = state.events.Find(hEnd);
  for (const auto& event : {start, end}) {
    if (event && event->captured) return CheckEventUse(*event);
    if (!event || !event->record || (event->flags & CU_EVENT_DISABLE_TIMING) != 0) return CUDA_ERROR_INVALID_HANDLE;
  }
  if (!state.engine.Query({start->record, end->record})) return CUDA_ERROR_NOT_READY;
  const auto nanoseconds = static_cast<double>(static_cast<int64_t>(end->record->end_ns - start->record->end_ns));
  *pMilliseconds = static_cast<float>(nanoseconds / 1e6);
  return CUDA_SUCCESS;
}

}  // namespace simcuda
