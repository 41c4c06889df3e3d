// What orders work, what waits for whom, and what is legal while a stream captures.
#include <future>
#include <thread>

#include "tests/gpu/claims.h"

// cuda.h declares it only in place of the other.
extern "C" CUresult cuStreamGetId_ptsz(CUstream, unsigned long long*);

namespace claims {
namespace {

constexpr auto kLong = std::chrono::milliseconds(300);

// Runs `inside` while a capture in global mode is open in another thread's stream; the capture must end well.
template <class Inside>
void WhileCapturing(Inside&& inside) {
  CUcontext context = nullptr;
  Must("cuCtxGetCurrent", cuCtxGetCurrent(&context));
  const CUstream captured = NewStream();
  std::promise<void> begun, done;
  std::thread capturing([&] {
    CUgraph graph = nullptr;
    Must("cuCtxSetCurrent", cuCtxSetCurrent(context));
    Must("cuStreamBeginCapture", cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL));
    begun.set_value();
    done.get_future().wait();
    Must("cuStreamEndCapture", cuStreamEndCapture(captured, &graph));
    Holds(graph != nullptr, "the capture gave no graph");
  });
  begun.get_future().wait();
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  Must("cuThreadExchangeStreamCaptureMode", cuThreadExchangeStreamCaptureMode(&mode));
  inside();
  Must("cuThreadExchangeStreamCaptureMode", cuThreadExchangeStreamCaptureMode(&mode));
  done.set_value();
  capturing.join();
}

const Claim kRelaxed("allocation_beside_a_capture", [] {
  StartDevice();
  CUdeviceptr kept = 0;
  Must("cuMemAlloc", cuMemAlloc(&kept, 4 * kMiB));
  WhileCapturing([&] {
    CUdeviceptr address = 0;
    Must("cuMemAlloc in relaxed mode", cuMemAlloc(&address, 4 * kMiB));
    Must("cuMemFree in relaxed mode", cuMemFree(kept));
  });
});

const Claim kPolling("polling_beside_a_capture", [] {
  StartDevice();
  const CUstream stream = NewStream();
  const CUevent event = NewEvent();
  Must("cuEventRecord", cuEventRecord(event, stream));
  WhileCapturing([&] {
    const CUresult polled = cuEventQuery(event);
    Holds(polled == CUDA_SUCCESS || polled == CUDA_ERROR_NOT_READY, "cuEventQuery: error " + std::to_string(polled));
    Must("cuStreamSynchronize", cuStreamSynchronize(stream));
  });
});

const Claim kQuarantine("synchronised_is_idle", [] {
  StartDevice();
  const Kernels kernels;
  const CUstream stream = NewStream();
  CUdeviceptr block = 0;
  Must("cuMemAlloc", cuMemAlloc(&block, 4 * kMiB));
  kernels.Delay(stream, kLong);
  kernels.Fill(stream, block, 1000, 7);
  const Clock clock;
  Must("cuMemFree", cuMemFree(block));
  Figure("cuMemFree of a block that a kernel of 300 ms uses", clock.Milliseconds(), "ms");
  Must("cuCtxSynchronize", cuCtxSynchronize());
  const CUresult idle = cuStreamQuery(stream);
  Holds(idle == CUDA_SUCCESS, "after cuCtxSynchronize the stream answers " + std::to_string(idle));
});

const Claim kContextEnds("destroyed_context_is_idle", [] {
  StartDevice();
  CUcontext first = nullptr, second = nullptr;
  Must("cuCtxGetCurrent", cuCtxGetCurrent(&first));
  void* host = nullptr;
  CUdeviceptr flag = 0;
  Must("cuMemHostAlloc", cuMemHostAlloc(&host, 4096, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
  auto* word = static_cast<volatile std::uint32_t*>(host);
  *word = 0;
  Must("cuCtxCreate", cuCtxCreate(&second, nullptr, 0, 0));
  {
    const Kernels kernels;
    const CUstream stream = NewStream();
    Must("cuMemHostGetDevicePointer", cuMemHostGetDevicePointer(&flag, host, 0));
    kernels.Delay(stream, kLong);
    kernels.Fill(stream, flag, 1, 1);
  }
  const Clock clock;
  Must("cuCtxDestroy", cuCtxDestroy(second));
  const std::uint32_t at_once = *word;
  Figure("cuCtxDestroy with a kernel of 300 ms under way", clock.Milliseconds(), "ms");
  std::this_thread::sleep_for(2 * kLong);
  Figure("the kernel ran to its end", at_once, "(1: yes)");
  Holds(*word == at_once, "it wrote after cuCtxDestroy had returned");
});

const Claim kEvents("events_delay_nothing", [] {
  StartDevice();
  const Kernels kernels;
  const CUstream one = NewStream(), other = NewStream();
  const CUevent event = NewEvent();
  kernels.Delay(one, kLong);
  Must("cuEventRecord", cuEventRecord(event, one));
  const Clock clock;
  kernels.Delay(other, std::chrono::milliseconds(1));
  Must("cuStreamSynchronize", cuStreamSynchronize(other));
  const double took = clock.Milliseconds();
  Figure("a kernel of 1 ms beside an event behind a kernel of 300 ms", took, "ms");
  Must("cuCtxSynchronize", cuCtxSynchronize());
  Holds(took < 200, "the event made another stream wait");
});

const Claim kLegacyEvents("events_in_the_legacy_stream_delay", [] {
  StartDevice();
  const Kernels kernels;
  const CUstream blocking = NewStream(CU_STREAM_DEFAULT), later = NewStream(CU_STREAM_DEFAULT);
  const CUevent event = NewEvent();
  kernels.Delay(blocking, kLong);
  Must("cuEventRecord", cuEventRecord(event, CU_STREAM_LEGACY));
  const Clock clock;
  kernels.Delay(later, std::chrono::milliseconds(1));
  Must("cuStreamSynchronize", cuStreamSynchronize(later));
  const double took = clock.Milliseconds();
  Figure("a kernel of 1 ms behind an event in the legacy stream", took, "ms");
  Must("cuCtxSynchronize", cuCtxSynchronize());
  Holds(took > 150, "it did not wait: an event could be recorded there after all");
});

unsigned long long IdOf(CUstream stream) {
  unsigned long long id = 0;
  Must("cuStreamGetId", cuStreamGetId(stream, &id));
  return id;
}

const Claim kStreamIds("stream_ids", [] {
  const CUcontext context = StartDevice();
  const unsigned long long legacy = IdOf(CU_STREAM_LEGACY), own = IdOf(CU_STREAM_PER_THREAD);
  Holds(IdOf(nullptr) == legacy, "NULL and the legacy handle are two streams");
  unsigned long long null_per_thread = 0, others = 0, legacy_elsewhere = 0;
  Must("cuStreamGetId_ptsz", cuStreamGetId_ptsz(nullptr, &null_per_thread));
  Holds(null_per_thread == own, "NULL in the per-thread variant is another stream than the per-thread handle");
  Holds(own != legacy, "the thread's own stream is the legacy one");
  std::thread([&] {
    Must("cuCtxSetCurrent", cuCtxSetCurrent(context));
    others = IdOf(CU_STREAM_PER_THREAD);
    legacy_elsewhere = IdOf(CU_STREAM_LEGACY);
  }).join();
  Holds(others != own, "two threads have one per-thread stream");
  Holds(legacy_elsewhere == legacy, "the legacy stream has another id in another thread");
  CUcontext second = nullptr;
  Must("cuCtxCreate", cuCtxCreate(&second, nullptr, 0, 0));
  Holds(IdOf(CU_STREAM_LEGACY) != legacy, "two contexts have one legacy stream");
});

const Claim kNoContext("errors_without_a_context", [] {
  StartDevice();
  CUdeviceptr block = 0;
  CUcontext second = nullptr;
  CUdevice device = 0;
  Must("cuMemAlloc", cuMemAlloc(&block, kMiB));
  Must("cuCtxSetCurrent", cuCtxSetCurrent(nullptr));
  const CUresult freed = cuMemFree(block);
  Figure("cuMemFree without a current context", freed, "(CUresult)");
  Holds(freed == CUDA_ERROR_INVALID_CONTEXT, "it is not CUDA_ERROR_INVALID_CONTEXT");
  Must("cuCtxCreate", cuCtxCreate(&second, nullptr, 0, 0));
  std::thread([&] {
    Must("cuCtxSetCurrent", cuCtxSetCurrent(second));
    std::thread([&] { Must("cuCtxDestroy", cuCtxDestroy(second)); }).join();
    const CUresult asked = cuCtxGetDevice(&device);
    Figure("cuCtxGetDevice in a context that another thread destroyed", asked, "(CUresult)");
    Holds(asked != CUDA_SUCCESS, "cuCtxGetDevice does not tell");
  }).join();
});

}  // namespace
}  // namespace claims
