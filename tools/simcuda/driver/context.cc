#include "tools/simcuda/driver/context.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>

#include "tools/simcuda/driver/call.h"
#include "tools/simcuda/driver/capture.h"
#include "tools/simcuda/driver/contexts.h"
#include "tools/simcuda/driver/pool.h"
#include "tools/simcuda/driver/state.h"

namespace simcuda {

uint64_t ThreadNumber() {
  static std::atomic<uint64_t> next{1};
  thread_local const uint64_t number = next++;
  return number;
}

namespace {

CUresult Judge(const Context& context) {
  if (!context.active) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return context.sticky;
}

std::shared_ptr<Stream> PerThreadStream(Context& context) {
  std::shared_ptr<Stream>& stream = context.per_thread[ThreadNumber()];
  if (!stream) {
    stream = MakeStream(context, CU_STREAM_DEFAULT, 0);
    stream->per_thread = true;
    stream->handle = CU_STREAM_PER_THREAD;
  }
  return stream;
}

}  // namespace

std::vector<std::shared_ptr<Context>>& ContextStack() {
  using Stack = std::vector<std::shared_ptr<Context>>;
  // Not a thread_local vector: other thread-local destructors may still call the driver. A key's destructor runs after
  // them, and a stack made even later only leaks.
  thread_local Stack* stack = nullptr;
  static const pthread_key_t key = [] {
    pthread_key_t made{};
    pthread_key_create(&made, [](void* ended) {
      stack = nullptr;
      delete static_cast<Stack*>(ended);
    });
    return made;
  }();
  if (stack == nullptr) {
    stack = new Stack;
    pthread_setspecific(key, stack);
  }
  return *stack;
}

CUresult FindDevice(CUdevice handle, Device** device) {
  State& state = State::Get();
  if (handle < 0 || static_cast<size_t>(handle) >= state.devices.size()) return CUDA_ERROR_INVALID_DEVICE;
  *device = state.devices[static_cast<size_t>(handle)].get();
  return CUDA_SUCCESS;
}

Context* CurrentContextOrNull() { return ContextStack().empty() ? nullptr : ContextStack().back().get(); }

CUresult CurrentContext(Context** context) {
  *context = CurrentContextOrNull();
  return *context == nullptr ? CUDA_ERROR_INVALID_CONTEXT : Judge(**context);
}

CUresult ContextOrCurrent(CUcontext handle, Context** context) {
  if (handle == nullptr) return CurrentContext(context);
  *context = State::Get().contexts.Find(handle).get();
  return *context == nullptr ? CUDA_ERROR_INVALID_CONTEXT : Judge(**context);
}

CUresult FindStream(CUstream handle, std::shared_ptr<Stream>* stream) {
  if (handle != nullptr && handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD) {
    *stream = State::Get().streams.Find(handle);
    if (!*stream) return CUDA_ERROR_INVALID_HANDLE;
    const CUresult lost = Judge(*(*stream)->context);
    return lost != CUDA_SUCCESS ? lost : CheckStreamUse(**stream);
  }
  SIMCUDA_CURRENT(context);
  const bool per_thread = handle == CU_STREAM_PER_THREAD || (handle == nullptr && Call::PerThread());
  *stream = per_thread ? PerThreadStream(*context) : context->legacy;
  return CheckStreamUse(**stream);
}

std::shared_ptr<Stream> MakeStream(Context& context, unsigned flags, int priority) {
  auto stream = std::make_shared<Stream>();
  stream->id = State::Get().next_stream_id++;
  stream->context = &context;
  stream->owner = context.shared_from_this();
  stream->flags = flags;
  stream->priority = priority;
  context.streams.push_back(stream);
  return stream;
}

CUresult ActivateContext(const std::shared_ptr<Context>& context) {
  State& state = State::Get();
  if (const CUresult result = context->device->Charge(state.config.context_bytes)) return result;
  context->id = state.next_context_id++;
  context->active = true;
  context->sticky = CUDA_SUCCESS;
  context->legacy = MakeStream(*context, CU_STREAM_DEFAULT, 0);
  context->legacy->legacy = true;
  context->legacy->handle = CU_STREAM_LEGACY;
  return CUDA_SUCCESS;
}

CUresult AfterSynchronization(Context& context) {
  TrimPoolsAfterSynchronization();
  return context.sticky;
}

bool PeersPossible(const Device& a, const Device& b) {
  return &a != &b && a.model->data_center && b.model->data_center;
}

void DeactivateContext(Context& context, const char* why) {
  State& state = State::Get();
  context.active = false;  // from here on nothing new can be queued in it
  state.engine.WaitContext(context);
  for (const auto& stream : std::vector<std::shared_ptr<Stream>>(context.streams)) CaptureStreamGone(stream);
  state.modules.ReleaseContext(context);
  state.arrays.ReleaseContext(context);
  state.memory.ReleaseContext(context, why);
  state.streams.RemoveIf([&](const Stream& stream) { return stream.context == &context; });
  state.events.RemoveIf([&](const Event& event) { return event.context == &context; });
  context.streams.clear();
  context.per_thread.clear();
  context.legacy.reset();
  context.peers.clear();
  context.limits.clear();
  context.device->Refund(state.config.context_bytes);
}

}  // namespace simcuda
