// Stream capture, against the CUDA C++ Programming Guide ("Creating a Graph Using Stream Capture", with "Cross-stream
// Dependencies and Events" and "Prohibited and Unhandled Operations") and the Driver API reference
// (cuStreamBeginCapture, cuStreamEndCapture, cuThreadExchangeStreamCaptureMode, cuStreamGetCaptureInfo).
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/tools/simcuda/simulated.h"

namespace cuheap::testing {
namespace {

constexpr uint64_t kWords = 1024;

std::vector<uint32_t> Read(CUdeviceptr address, uint64_t words = kWords) {
  std::vector<uint32_t> bytes(words);
  EXPECT_CUDA(cuCtxSynchronize());
  EXPECT_CUDA(cuMemcpyDtoH(bytes.data(), address, words * sizeof(uint32_t)));
  return bytes;
}

void InAllOrders(const std::function<void()>& body) {
  for (const char* order : {"late", "eager", "random"}) Simulate({{"SIMCUDA_ORDER", order}}, body);
}

CUstreamCaptureStatus StatusOf(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  EXPECT_CUDA(cuStreamIsCapturing(stream, &status));
  return status;
}

CUresult EndAndDestroy(CUstream stream) {
  CUgraph graph = nullptr;
  const CUresult result = cuStreamEndCapture(stream, &graph);
  EXPECT_EQ(graph != nullptr, result == CUDA_SUCCESS);
  if (graph != nullptr) {
    EXPECT_CUDA(cuGraphDestroy(graph));
  }
  return result;
}

// "When a stream is being captured, work is not enqueued for execution ... it is appended to an internal graph."
TEST(Capture, NothingRunsUntilTheGraphIsLaunched) {
  InAllOrders([] {
    UseDevice();
    const CUdeviceptr block = Allocate(kWords * 4);
    const CUstream stream = MakeStream();
    ASSERT_CUDA(cuMemsetD32(block, 1, kWords));
    ASSERT_CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_CUDA(Launch(stream, "simcuda_scale_add", block, kWords, 3u, 2u));
    EXPECT_EQ(StatusOf(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CUgraph graph = nullptr;
    ASSERT_CUDA(cuStreamEndCapture(stream, &graph));
    EXPECT_EQ(StatusOf(stream), CU_STREAM_CAPTURE_STATUS_NONE);
    EXPECT_EQ(Read(block), std::vector<uint32_t>(kWords, 1));
    CUgraphExec exec = nullptr;
    ASSERT_CUDA(cuGraphInstantiate(&exec, graph, 0));
    ASSERT_CUDA(cuGraphDestroy(graph));
    ASSERT_CUDA(cuGraphLaunch(exec, stream));
    ASSERT_CUDA(cuGraphLaunch(exec, stream));
    EXPECT_EQ(Read(block), std::vector<uint32_t>(kWords, (1 * 3 + 2) * 3 + 2));
    EXPECT_CUDA(cuGraphExecDestroy(exec));
  });
}

// Copies of each direction, memsets and host functions replay on the bytes of the time of the launch.
TEST(Capture, CopiesMemsetsAndHostFunctionsReplay) {
  InAllOrders([] {
    UseDevice();
    const CUdeviceptr block = Allocate(kWords * 4), other = Allocate(kWords * 4);
    auto* pinned = AllocatePinned<uint32_t>(kWords);
    std::vector<uint32_t> pageable(kWords, 7);
    const CUstream stream = MakeStream();
    int calls = 0;
    ASSERT_CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_CUDA(cuMemcpyHtoDAsync(block, pageable.data(), kWords * 4, stream));
    EXPECT_CUDA(cuMemcpyDtoDAsync(other, block, kWords * 4, stream));
    EXPECT_CUDA(cuMemsetD32Async(other, 5, kWords / 2, stream));
    EXPECT_CUDA(cuMemcpyDtoHAsync(pinned, other, kWords * 4, stream));
    EXPECT_CUDA(cuLaunchHostFunc(stream, [](void* count) { ++*static_cast<int*>(count); }, &calls));
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    ASSERT_CUDA(cuStreamEndCapture(stream, &graph));
    size_t nodes = 0;
    EXPECT_CUDA(cuGraphGetNodes(graph, nullptr, &nodes));
    EXPECT_EQ(nodes, 5u);
    ASSERT_CUDA(cuGraphInstantiate(&exec, graph, 0));
    pageable.assign(kWords, 9);
    ASSERT_CUDA(cuGraphLaunch(exec, stream));
    ASSERT_CUDA(cuStreamSynchronize(stream));
    EXPECT_EQ(calls, 1);
    std::vector<uint32_t> expected(kWords, 9);
    std::fill_n(expected.begin(), kWords / 2, 5);
    EXPECT_EQ(std::vector<uint32_t>(pinned, pinned + kWords), expected);
  });
}

// "A captured event represents a set of nodes in a capture graph. When a captured event is waited on by a stream, it
// places the stream in capture mode if it is not already."
TEST(Capture, AnEventCarriesTheCaptureToAnotherStreamAndBack) {
  InAllOrders([] {
    UseDevice();
    const CUdeviceptr a = Allocate(kWords * 4), b = Allocate(kWords * 4), sum = Allocate(kWords * 4);
    const CUstream origin = MakeStream(), fork = MakeStream();
    const CUevent forked = MakeEvent(), joined = MakeEvent();
    ASSERT_CUDA(cuStreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    EXPECT_CUDA(Launch(origin, "simcuda_fill", a, kWords, 40u));
    ASSERT_CUDA(cuEventRecord(forked, origin));
    ASSERT_CUDA(cuStreamWaitEvent(fork, forked, 0));
    EXPECT_EQ(StatusOf(fork), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    EXPECT_CUDA(Launch(fork, "simcuda_fill", b, kWords, 2u));
    ASSERT_CUDA(cuEventRecord(joined, fork));
    EXPECT_CUDA(Launch(origin, "simcuda_scale_add", a, kWords, 2u, 0u));
    ASSERT_CUDA(cuStreamWaitEvent(origin, joined, 0));
    EXPECT_CUDA(Launch(origin, "simcuda_add", sum, a, b, kWords));
    CUgraph graph = nullptr;
    ASSERT_CUDA(cuStreamEndCapture(origin, &graph));
    EXPECT_EQ(StatusOf(fork), CU_STREAM_CAPTURE_STATUS_NONE);
    size_t edges = 0;
    EXPECT_CUDA(cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));
    EXPECT_EQ(edges, 4u);  // fill a -> fill b, fill a -> double a, and both to the sum
    CUgraphExec exec = nullptr;
    ASSERT_CUDA(cuGraphInstantiate(&exec, graph, 0));
    ASSERT_CUDA(cuGraphLaunch(exec, origin));
    EXPECT_EQ(Read(sum), std::vector<uint32_t>(kWords, 82));
  });
}

// Without the join the two writers of `a` have no order: the late order runs the one captured last first.
TEST(Capture, WhatDoesNotDependOnEachOtherRunsInAnyOrder) {
  const auto run = [](const char* order, uint32_t expected) {
    Simulate({{"SIMCUDA_ORDER", order}}, [expected] {
      UseDevice();
      const CUdeviceptr a = Allocate(kWords * 4);
      const CUstream origin = MakeStream(), fork = MakeStream();
      const CUevent forked = MakeEvent(), joined = MakeEvent();
      ASSERT_CUDA(cuStreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_GLOBAL));
      ASSERT_CUDA(cuEventRecord(forked, origin));
      ASSERT_CUDA(cuStreamWaitEvent(fork, forked, 0));
      EXPECT_CUDA(Launch(origin, "simcuda_fill", a, kWords, 1u));
      EXPECT_CUDA(Launch(fork, "simcuda_fill", a, kWords, 2u));
      ASSERT_CUDA(cuEventRecord(joined, fork));
      ASSERT_CUDA(cuStreamWaitEvent(origin, joined, 0));
      CUgraph graph = nullptr;
      CUgraphExec exec = nullptr;
      ASSERT_CUDA(cuStreamEndCapture(origin, &graph));
      ASSERT_CUDA(cuGraphInstantiate(&exec, graph, 0));
      ASSERT_CUDA(cuGraphLaunch(exec, origin));
      EXPECT_EQ(Read(a)[0], expected);
    });
  };
  run("late", 1);
  run("eager", 2);
}

TEST(Capture, AStreamThatIsNotJoinedBackFailsTheCapture) {
  Simulate({}, [] {
    UseDevice();
    const CUdeviceptr a = Allocate(kWords * 4);
    const CUstream origin = MakeStream(), fork = MakeStream();
    const CUevent forked = MakeEvent();
    ASSERT_CUDA(cuStreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ASSERT_CUDA(cuEventRecord(forked, origin));
    ASSERT_CUDA(cuStreamWaitEvent(fork, forked, 0));
    EXPECT_CUDA(Launch(fork, "simcuda_fill", a, kWords, 2u));
    EXPECT_EQ(EndAndDestroy(origin), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    EXPECT_EQ(StatusOf(fork), CU_STREAM_CAPTURE_STATUS_NONE);
  });
}

// "It is invalid to merge two separate capture graphs ... It is invalid to wait on a non-captured event from a stream
// which is being captured without specifying the cudaEventWaitExternal flag."
TEST(Capture, CapturesAreIsolated) {
  Simulate({}, [] {
    UseDevice();
    const CUdeviceptr a = Allocate(kWords * 4);
    const CUstream first = MakeStream(), second = MakeStream(), plain = MakeStream();
    const CUevent event = MakeEvent();
    ASSERT_CUDA(cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_RELAXED));
    ASSERT_CUDA(cuStreamBeginCapture(second, CU_STREAM_CAPTURE_MODE_RELAXED));
    ASSERT_CUDA(cuEventRecord(event, first));
    EXPECT_EQ(cuStreamWaitEvent(second, event, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
    EXPECT_EQ(EndAndDestroy(first), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_EQ(EndAndDestroy(second), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    ASSERT_CUDA(cuEventRecord(event, plain));
    ASSERT_CUDA(cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_EQ(cuStreamWaitEvent(first, event, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    EXPECT_EQ(StatusOf(first), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    EXPECT_EQ(Launch(first, "simcuda_fill", a, kWords, 1u), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_EQ(EndAndDestroy(first), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_EQ(StatusOf(first), CU_STREAM_CAPTURE_STATUS_NONE);

    ASSERT_CUDA(cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_CUDA(cuStreamWaitEvent(first, event, CU_EVENT_WAIT_EXTERNAL));
    EXPECT_EQ(EndAndDestroy(first), CUDA_SUCCESS);
  });
}

// "It is invalid to synchronize or query the execution status of a stream which is being captured or a captured event
// ... also ... a broader handle which encompasses an active stream capture, such as a device or context handle."
TEST(Capture, WaitingForWhatIsCapturedInvalidates) {
  Simulate({}, [] {
    const CUcontext context = UseDevice();
    const CUstream stream = MakeStream();
    const CUevent event = MakeEvent(), plain = MakeEvent();
    const std::vector<std::pair<std::function<CUresult()>, CUresult>> calls = {
        {[&] { return cuStreamSynchronize(stream); }, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
        {[&] { return cuStreamQuery(stream); }, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
        {[&] { return cuCtxSynchronize(); }, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
        {[&] { return cuCtxRecordEvent(context, plain); }, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
        {[&] { return cuCtxWaitEvent(context, plain); }, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
        {[&] { return cuEventQuery(event); }, CUDA_ERROR_CAPTURED_EVENT},
        {[&] { return cuEventSynchronize(event); }, CUDA_ERROR_CAPTURED_EVENT},
        {[&] { return cuStreamAddCallback(stream, [](CUstream, CUresult, void*) {}, nullptr, 0); },
         CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
    };
    // Relaxed: "the thread is still prohibited from API calls which necessarily conflict with stream capture".
    for (size_t i = 0; i < calls.size(); ++i) {
      ASSERT_CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
      CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
      ASSERT_CUDA(cuThreadExchangeStreamCaptureMode(&mode));
      ASSERT_CUDA(cuEventRecord(event, stream));
      EXPECT_EQ(calls[i].first(), calls[i].second) << "call " << i;
      EXPECT_EQ(StatusOf(stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED) << "call " << i;
      EXPECT_EQ(EndAndDestroy(stream), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) << "call " << i;
      ASSERT_CUDA(cuThreadExchangeStreamCaptureMode(&mode));
    }
    EXPECT_CUDA(cuCtxSynchronize());
    EXPECT_CUDA(cuEventRecord(event, stream));  // an ordinary event again
    EXPECT_CUDA(cuEventSynchronize(event));
  });
}

// "When any stream in the same context is being captured, and it was not created with cudaStreamNonBlocking, any
// attempted use of the legacy stream is invalid"; asking it is an error that does not invalidate (cuStreamIsCapturing).
TEST(Capture, TheLegacyStreamIsUnusableWhileABlockingStreamCaptures) {
  Simulate({}, [] {
    UseDevice();
    const CUdeviceptr a = Allocate(kWords * 4);
    const CUstream blocking = MakeStream(CU_STREAM_DEFAULT), other = MakeStream();
    EXPECT_EQ(cuStreamBeginCapture(CU_STREAM_LEGACY, CU_STREAM_CAPTURE_MODE_GLOBAL),
              CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    ASSERT_CUDA(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
    CUstreamCaptureStatus status;
    EXPECT_EQ(cuStreamIsCapturing(CU_STREAM_LEGACY, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    EXPECT_EQ(StatusOf(blocking), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    EXPECT_EQ(cuMemsetD8(a, 1, 4), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    EXPECT_EQ(EndAndDestroy(blocking), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_CUDA(cuMemsetD8(a, 1, 4));
    ASSERT_CUDA(cuStreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_CUDA(cuMemsetD8(a, 1, 4));  // it does not interlock with a non-blocking stream
    EXPECT_EQ(EndAndDestroy(other), CUDA_SUCCESS);
  });
}

// cuThreadExchangeStreamCaptureMode's three modes, and the three of the capture, from its own and another thread.
TEST(Capture, AllocationIsUnsafeByTheModesOfCaptureAndThread) {
  const auto allowed = [](CUstreamCaptureMode capture, CUstreamCaptureMode thread, bool same_thread) {
    if (thread == CU_STREAM_CAPTURE_MODE_RELAXED) return true;
    if (same_thread) return capture == CU_STREAM_CAPTURE_MODE_RELAXED;
    return thread == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL || capture != CU_STREAM_CAPTURE_MODE_GLOBAL;
  };
  for (const auto capture :
       {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED}) {
    for (const auto thread :
         {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED}) {
      for (const bool same : {true, false}) {
        Simulate({}, [&] {
          const CUcontext context = UseDevice();
          const CUstream stream = MakeStream();
          ASSERT_CUDA(cuStreamBeginCapture(stream, capture));
          CUresult result = CUDA_ERROR_UNKNOWN;
          const auto call = [&] {
            EXPECT_CUDA(cuCtxSetCurrent(context));
            CUstreamCaptureMode mode = thread;
            EXPECT_CUDA(cuThreadExchangeStreamCaptureMode(&mode));
            EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
            CUdeviceptr block = 0;
            result = cuMemAlloc(&block, 4096);
            EXPECT_CUDA(cuThreadExchangeStreamCaptureMode(&mode));
          };
          same ? call() : std::thread(call).join();
          const bool good = allowed(capture, thread, same);
          EXPECT_EQ(result, good ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
              << "capture " << capture << ", thread " << thread << ", same " << same;
          EXPECT_EQ(EndAndDestroy(stream), good ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        });
      }
    }
  }
}

// "If mode is not CU_STREAM_CAPTURE_MODE_RELAXED, cuStreamEndCapture must be called on this stream from the same
// thread."
TEST(Capture, OnlyARelaxedCaptureEndsInAnotherThread) {
  Simulate({}, [] {
    const CUcontext context = UseDevice();
    const CUstream stream = MakeStream();
    CUresult result = CUDA_SUCCESS;
    const auto end_elsewhere = [&] {
      std::thread([&] {
        EXPECT_CUDA(cuCtxSetCurrent(context));
        CUgraph graph = nullptr;
        result = cuStreamEndCapture(stream, &graph);
      }).join();
    };
    ASSERT_CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    EXPECT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_ERROR_ILLEGAL_STATE);
    end_elsewhere();
    EXPECT_EQ(result, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    EXPECT_EQ(EndAndDestroy(stream), CUDA_SUCCESS);
    ASSERT_CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    end_elsewhere();
    EXPECT_CUDA(result);
  });
}

// "The next node to be captured in the stream will depend on this set of nodes."
TEST(Capture, InfoAndDependenciesCanBeReadAndSet) {
  Simulate({}, [] {
    UseDevice();
    const CUdeviceptr a = Allocate(kWords * 4);
    const CUstream stream = MakeStream();
    EXPECT_EQ(cuStreamUpdateCaptureDependencies(stream, nullptr, nullptr, 0, 0), CUDA_ERROR_ILLEGAL_STATE);
    ASSERT_CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_CUDA(Launch(stream, "simcuda_fill", a, kWords, 1u));
    EXPECT_CUDA(Launch(stream, "simcuda_fill", a, kWords, 2u));
    CUstreamCaptureStatus status;
    cuuint64_t id = 0;
    CUgraph graph = nullptr;
    const CUgraphNode* next = nullptr;
    const CUgraphEdgeData* data = nullptr;
    size_t count = 0;
    ASSERT_CUDA(cuStreamGetCaptureInfo(stream, &status, &id, &graph, &next, &data, &count));
    EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    EXPECT_NE(id, 0u);
    ASSERT_EQ(count, 1u);
    CUgraphNode nodes[2] = {};
    size_t total = 2;
    ASSERT_CUDA(cuGraphGetNodes(graph, nodes, &total));
    EXPECT_EQ(next[0], nodes[1]);
    EXPECT_EQ(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
    // The third node beside the second instead of behind it, then an empty node joins both.
    ASSERT_CUDA(cuStreamUpdateCaptureDependencies(stream, nodes, nullptr, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    EXPECT_CUDA(Launch(stream, "simcuda_fill", a, kWords, 3u));
    ASSERT_CUDA(cuStreamUpdateCaptureDependencies(stream, nodes + 1, nullptr, 1, 0));
    ASSERT_CUDA(cuStreamGetCaptureInfo(stream, &status, &id, &graph, &next, nullptr, &count));
    EXPECT_EQ(count, 2u);
    EXPECT_EQ(EndAndDestroy(stream), CUDA_SUCCESS);
  });
}

// External records and waits are nodes, valid only in capture (cuEventRecordWithFlags, cuStreamWaitEvent).
TEST(Capture, ExternalEventsBecomeNodes) {
  InAllOrders([] {
    UseDevice();
    const CUdeviceptr a = Allocate(kWords * 4), copy = Allocate(kWords * 4);
    const CUstream stream = MakeStream(), other = MakeStream();
    const CUevent done = MakeEvent();
    EXPECT_EQ(cuEventRecordWithFlags(done, stream, CU_EVENT_RECORD_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuStreamWaitEvent(stream, done, CU_EVENT_WAIT_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
    ASSERT_CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_CUDA(Launch(stream, "simcuda_fill", a, kWords, 6u));
    ASSERT_CUDA(cuEventRecordWithFlags(done, stream, CU_EVENT_RECORD_EXTERNAL));
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    ASSERT_CUDA(cuStreamEndCapture(stream, &graph));
    ASSERT_CUDA(cuGraphInstantiate(&exec, graph, 0));
    EXPECT_CUDA(cuEventQuery(done));  // never recorded
    ASSERT_CUDA(cuGraphLaunch(exec, stream));
    ASSERT_CUDA(cuStreamWaitEvent(other, done, 0));
    ASSERT_CUDA(cuMemcpyDtoDAsync(copy, a, kWords * 4, other));
    ASSERT_CUDA(cuStreamSynchronize(other));
    EXPECT_EQ(Read(copy), std::vector<uint32_t>(kWords, 6));
  });
}

}  // namespace
}  // namespace cuheap::testing
