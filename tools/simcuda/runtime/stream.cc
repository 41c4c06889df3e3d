// CUDA Runtime API, "Stream Management" and "Event Management".
#include "tools/simcuda/runtime/stream_variants.h"

using cuheap::simcudart::DriverCalls;
using cuheap::simcudart::InContext;
using cuheap::simcudart::StreamCalls;
using cuheap::simcudart::ToDevice;

// Stream and event flags have the same numbers in both interfaces.

SIMCUDART_EXPORT cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return InContext([&](const DriverCalls& driver) { return driver.StreamCreate(stream, CU_STREAM_DEFAULT); });
}

SIMCUDART_EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return InContext([&](const DriverCalls& driver) { return driver.StreamCreate(stream, flags); });
}

SIMCUDART_EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority) {
  return InContext([&](const DriverCalls& driver) { return driver.StreamCreateWithPriority(stream, flags, priority); });
}

SIMCUDART_EXPORT cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return InContext([&](const DriverCalls& driver) {
    // The default streams have no owner: they can't be destroyed.
    if (stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread) {
      return CUDA_ERROR_INVALID_HANDLE;
    }
    return driver.StreamDestroy(stream);
  });
}

SIMCUDART_FORWARD_VARIANTS(cudaStreamSynchronize, _ptsz, (cudaStream_t stream), StreamSynchronize, stream)

SIMCUDART_FORWARD_VARIANTS(cudaStreamQuery, _ptsz, (cudaStream_t stream), StreamQuery, stream)

SIMCUDART_FORWARD_VARIANTS(cudaStreamWaitEvent, _ptsz, (cudaStream_t stream, cudaEvent_t event, unsigned int flags),
                           StreamWaitEvent, stream, event, flags)

SIMCUDART_FORWARD_VARIANTS(cudaStreamGetPriority, _ptsz, (cudaStream_t stream, int* priority), StreamGetPriority,
                           stream, priority)

SIMCUDART_FORWARD_VARIANTS(cudaStreamGetFlags, _ptsz, (cudaStream_t stream, unsigned int* flags), StreamGetFlags,
                           stream, flags)

SIMCUDART_FORWARD_VARIANTS(cudaStreamGetId, _ptsz, (cudaStream_t stream, unsigned long long* id), StreamGetId, stream,
                           id)

SIMCUDART_FORWARD_VARIANTS(cudaStreamGetDevice, _ptsz, (cudaStream_t stream, int* device), StreamGetDevice, stream,
                           device)

SIMCUDART_FORWARD_VARIANTS(cudaStreamCopyAttributes, _ptsz, (cudaStream_t to, cudaStream_t from), StreamCopyAttributes,
                           to, from)

SIMCUDART_FORWARD_VARIANTS(cudaLaunchHostFunc, _ptsz, (cudaStream_t stream, cudaHostFn_t function, void* data),
                           LaunchHostFunc, stream, function, data)

namespace {

CUresult AddCallback(const StreamCalls& calls, cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                     unsigned int flags) {
  // The two callback types differ in the enumeration of the status they are given; the numbers are the same.
  return calls.StreamAddCallback(stream, reinterpret_cast<CUstreamCallback>(callback), data, flags);
}

CUresult AttachMemory(const StreamCalls& calls, cudaStream_t stream, void* pointer, std::size_t bytes,
                      unsigned int flags) {
  return calls.StreamAttachMemAsync(stream, ToDevice(pointer), bytes, flags);
}

static_assert(sizeof(cudaStreamAttrValue) == sizeof(CUstreamAttrValue));

CUresult GetAttribute(const StreamCalls& calls, cudaStream_t stream, cudaStreamAttrID attribute,
                      cudaStreamAttrValue* value) {
  return calls.StreamGetAttribute(stream, static_cast<CUstreamAttrID>(attribute),
                                  reinterpret_cast<CUstreamAttrValue*>(value));
}

CUresult SetAttribute(const StreamCalls& calls, cudaStream_t stream, cudaStreamAttrID attribute,
                      const cudaStreamAttrValue* value) {
  return calls.StreamSetAttribute(stream, static_cast<CUstreamAttrID>(attribute),
                                  reinterpret_cast<const CUstreamAttrValue*>(value));
}

}  // namespace

SIMCUDART_VARIANTS(cudaStreamAddCallback, _ptsz,
                   (cudaStream_t stream, cudaStreamCallback_t callback, void* data, unsigned int flags), AddCallback,
                   stream, callback, data, flags)

SIMCUDART_VARIANTS(cudaStreamAttachMemAsync, _ptsz,
                   (cudaStream_t stream, void* pointer, std::size_t bytes, unsigned int flags), AttachMemory, stream,
                   pointer, bytes, flags)

SIMCUDART_VARIANTS(cudaStreamGetAttribute, _ptsz,
                   (cudaStream_t stream, cudaStreamAttrID attribute, cudaStreamAttrValue* value), GetAttribute, stream,
                   attribute, value)

SIMCUDART_VARIANTS(cudaStreamSetAttribute, _ptsz,
                   (cudaStream_t stream, cudaStreamAttrID attribute, const cudaStreamAttrValue* value), SetAttribute,
                   stream, attribute, value)

SIMCUDART_EXPORT cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return InContext([&](const DriverCalls& driver) { return driver.EventCreate(event, CU_EVENT_DEFAULT); });
}

SIMCUDART_EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  return InContext([&](const DriverCalls& driver) { return driver.EventCreate(event, flags); });
}

SIMCUDART_EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return InContext([&](const DriverCalls& driver) { return driver.EventDestroy(event); });
}

SIMCUDART_EXPORT cudaError_t cudaEventQuery(cudaEvent_t event) {
  return InContext([&](const DriverCalls& driver) { return driver.EventQuery(event); });
}

SIMCUDART_EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return InContext([&](const DriverCalls& driver) { return driver.EventSynchronize(event); });
}

SIMCUDART_EXPORT cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  return InContext([&](const DriverCalls& driver) { return driver.EventElapsedTime(milliseconds, begin, end); });
}

SIMCUDART_FORWARD_VARIANTS(cudaEventRecord, _ptsz, (cudaEvent_t event, cudaStream_t stream), EventRecord, event, stream)

SIMCUDART_FORWARD_VARIANTS(cudaEventRecordWithFlags, _ptsz,
                           (cudaEvent_t event, cudaStream_t stream, unsigned int flags), EventRecordWithFlags, event,
                           stream, flags)
