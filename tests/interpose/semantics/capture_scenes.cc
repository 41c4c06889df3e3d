// Stream capture and graphs around memory of ours: what is forbidden, what replays, what a free means meanwhile.
// Source: CUDA C++ Programming Guide, "CUDA Graphs"; CUDA Driver API, cuStreamBeginCapture,
// cuThreadExchangeStreamCaptureMode, cuMemFree.
#include <atomic>
#include <thread>
#include <vector>

#include "tests/interpose/semantics/scene.h"

namespace semantics {
namespace {

constexpr std::size_t kSizes[] = {6000, 5 * kMiB};
constexpr CUstreamCaptureMode kModes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                          CU_STREAM_CAPTURE_MODE_RELAXED};

void Begin(CUstream stream, CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED) {
  Must("begin", cuStreamBeginCapture(stream, mode));
}

CUgraph End(CUstream stream) {
  CUgraph graph = nullptr;
  Must("end", cuStreamEndCapture(stream, &graph));
  return graph;
}

CUgraphExec Instantiate(CUgraph graph) {
  CUgraphExec exec = nullptr;
  Must("instantiate", cuGraphInstantiate(&exec, graph, 0));
  return exec;
}

void SayStatus(const char* what, CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult result = cuStreamIsCapturing(stream, &status);
  Print("%s: status %d (%d)", what, static_cast<int>(status), static_cast<int>(result));
}

int SayEnd(CUstream stream) {
  CUgraph graph = nullptr;
  const int result = Say("end", cuStreamEndCapture(stream, &graph));
  if (graph != nullptr) Say("destroy", cuGraphDestroy(graph));
  return result;
}

// Runs call() in this thread or another one, which asks to be treated by `mode`.
template <class Call>
void InMode(CUstreamCaptureMode mode, bool other_thread, CUcontext context, Call&& call) {
  const auto run = [&] {
    Must("current", cuCtxSetCurrent(context));
    CUstreamCaptureMode exchanged = mode;
    Must("exchange", cuThreadExchangeStreamCaptureMode(&exchanged));
    call();
    Must("exchange", cuThreadExchangeStreamCaptureMode(&exchanged));
  };
  other_thread ? std::thread(run).join() : run();
}

// cuMemAlloc and cuMemFree by the mode of the capture, the mode of the thread, and whose thread it is.
void Modes() {
  const CUcontext context = StartDevice();
  const CUstream stream = NewStream();
  for (const std::size_t bytes : kSizes) {
    for (const CUstreamCaptureMode capture : kModes) {
      for (const CUstreamCaptureMode thread : kModes) {
        for (const bool other : {false, true}) {
          Print("capture %d thread %d other %d", static_cast<int>(capture), static_cast<int>(thread), other);
          CUdeviceptr block = Allocate(bytes);
          CUdeviceptr made = 0;
          Fill(block, 0x11, bytes / 4 * 4);
          Begin(stream, capture);
          InMode(thread, other, context, [&] { Say("allocate", cuMemAlloc(&made, bytes)); });
          SayStatus("after allocating", stream);
          SayEnd(stream);
          Begin(stream, capture);
          bool freed = false;
          InMode(thread, other, context, [&] { freed = Say("free", cuMemFree(block)) == CUDA_SUCCESS; });
          SayStatus("after freeing", stream);
          SayEnd(stream);
          if (!freed) {
            Expect(Holds(block, 0x11, bytes / 4 * 4), "a block that was not freed is as it was");
            Say("free after the end", cuMemFree(block));
          }
          Say("free again", cuMemFree(block));
          if (made != 0) Say("free the other", cuMemFree(made));
        }
      }
    }
  }
}
const Scene modes("capture-modes", "", Modes);

// Each of these invalidates the capture, with us as without.
void Forbidden() {
  const CUcontext context = StartDevice();
  const CUstream stream = NewStream();
  const CUstream other = NewStream();
  CUstream blocking = nullptr;
  Must("stream", cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
  CUevent event = nullptr;
  CUevent outside = nullptr;
  Must("event", cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  Must("event", cuEventCreate(&outside, CU_EVENT_DISABLE_TIMING));
  const CUdeviceptr block = Allocate(6000);
  Must("record", cuEventRecord(outside, other));
  const auto attempt = [&](const char* what, CUstream captured, auto&& call) {
    Begin(captured);
    Must("record", cuEventRecord(event, captured));
    Say(what, call());
    SayStatus(what, captured);
    SayEnd(captured);
    Say("afterwards", cuMemsetD8(block, 1, 6000));
  };
  attempt("synchronize the stream", stream, [&] { return cuStreamSynchronize(stream); });
  attempt("query the stream", stream, [&] { return cuStreamQuery(stream); });
  attempt("synchronize the context", stream, [&] { return cuCtxSynchronize(); });
  attempt("record in the context", stream, [&] { return cuCtxRecordEvent(context, outside); });
  attempt("query a captured event", stream, [&] { return cuEventQuery(event); });
  attempt("synchronize a captured event", stream, [&] { return cuEventSynchronize(event); });
  attempt("wait for an event from outside", stream, [&] { return cuStreamWaitEvent(stream, outside, 0); });
  attempt("use the legacy stream", blocking, [&] { return cuMemsetD8(block, 2, 6000); });
  attempt("use the legacy stream beside", stream, [&] { return cuMemsetD8(block, 2, 6000); });
  attempt("free in the capture what it did not allocate", stream, [&] { return cuMemFreeAsync(block, stream); });
  Say("the block is still there", cuMemFree(block));
}
const Scene forbidden("capture-forbidden", "", Forbidden);

// Two streams, kernels, copies, memsets and a host function; between the replays memory comes and goes.
void Replays() {
  StartDevice();
  const Kernels kernels;
  const CUstream stream = NewStream();
  const CUstream fork = NewStream();
  CUevent forked = nullptr;
  CUevent joined = nullptr;
  Must("event", cuEventCreate(&forked, CU_EVENT_DISABLE_TIMING));
  Must("event", cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING));
  unsigned* pinned = nullptr;
  Must("pinned", cuMemAllocHost(reinterpret_cast<void**>(&pinned), 4096));
  for (const std::size_t bytes : kSizes) {
    for (const CUstreamCaptureMode mode : kModes) {
      const CUdeviceptr a = Allocate(bytes);
      const CUdeviceptr b = Allocate(bytes);
      std::atomic<int> calls{0};
      Begin(stream, mode);
      Must("memset", cuMemsetD32Async(a, 2, 1024, stream));
      Must("record", cuEventRecord(forked, stream));
      Must("wait", cuStreamWaitEvent(fork, forked, 0));
      Must("scale", kernels.ScaleAdd(fork, a, 1024, 10, 1));
      Must("copy", kernels.Copy(fork, b, a, 4096));
      Must("record", cuEventRecord(joined, fork));
      Must("wait", cuStreamWaitEvent(stream, joined, 0));
      Must("copy out", cuMemcpyDtoHAsync(pinned, b, 4096, stream));
      Must("host", cuLaunchHostFunc(stream, [](void* count) { ++*static_cast<std::atomic<int>*>(count); }, &calls));
      const CUgraph graph = End(stream);
      CUgraph clone = nullptr;
      Say("clone", cuGraphClone(&clone, graph));
      const CUgraphExec execs[] = {Instantiate(graph), Instantiate(clone)};
      Say("destroy", cuGraphDestroy(graph));
      for (int round = 0; round < 4; ++round) {
        pinned[0] = 0;
        const CUdeviceptr between = Allocate(bytes);
        Must("fill", kernels.Fill(stream, between, 1024, 0x77));
        Say("launch", cuGraphLaunch(execs[round % 2], stream));
        Must("copy back", cuMemcpyDtoDAsync(between, b, 4096, stream));
        Say("free", cuMemFree(between));  // waits as natively, for the graph too
        Say("wait", cuStreamSynchronize(stream));
        Print("round %d: %u, %d calls", round, pinned[0], calls.load());
        Expect(pinned[0] == 21 && calls == round + 1, "the graph's own bytes");
      }
      Say("destroy", cuGraphExecDestroy(execs[0]));
      Say("destroy", cuGraphExecDestroy(execs[1]));
      Say("destroy", cuGraphDestroy(clone));
      Say("free", cuMemFree(a));
      Say("free", cuMemFree(b));
    }
  }
}
const Scene replays("capture-replays", "", Replays);

// Freed meanwhile: blocks that the graph does not use. By cuMemFree, and in another stream.
void FreesMeanwhile() {
  const CUcontext context = StartDevice();
  const Kernels kernels;
  const CUstream stream = NewStream();
  const CUstream other = NewStream();
  for (const std::size_t bytes : kSizes) {
    for (const bool in_stream : {false, true}) {
      const CUdeviceptr used = Allocate(bytes);
      CUdeviceptr idle = 0;
      if (in_stream) {
        Must("allocate", cuMemAllocAsync(&idle, bytes, other));
      } else {
        idle = Allocate(bytes);
      }
      Must("fill", kernels.Fill(other, idle, 1024, 5));
      Begin(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
      Must("scale", kernels.ScaleAdd(stream, used, 1024, 2, 1));
      InMode(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, /*other_thread=*/true, context, [&] {
        Say("free", in_stream ? cuMemFreeAsync(idle, other) : cuMemFree(idle));
        Say("free again", in_stream ? cuMemFreeAsync(idle, other) : cuMemFree(idle));
      });
      SayStatus("after the free", stream);
      const CUgraph graph = End(stream);
      const CUgraphExec exec = Instantiate(graph);
      Fill(used, 1, 4096);
      Must("wait", cuCtxSynchronize());
      std::vector<CUdeviceptr> later;
      for (unsigned i = 0; i < 3; ++i) {
        CUdeviceptr block = 0;
        Must("allocate", in_stream ? cuMemAllocAsync(&block, bytes, other) : cuMemAlloc(&block, bytes));
        Must("fill", kernels.Fill(other, block, 1024, 100 + i));
        Say("launch", cuGraphLaunch(exec, stream));
        later.push_back(block);
      }
      Say("wait", cuCtxSynchronize());
      Print("used %u later %u %u %u", ReadWord(used), ReadWord(later[0]), ReadWord(later[1]), ReadWord(later[2]));
      Expect(ReadWord(used) == 15 && ReadWord(later[2]) == 102, "nobody writes another's memory");
      Say("destroy", cuGraphExecDestroy(exec));
      Say("destroy", cuGraphDestroy(graph));
      for (const CUdeviceptr block : later) Say("free", in_stream ? cuMemFreeAsync(block, other) : cuMemFree(block));
      Say("free", cuMemFree(used));
      Say("wait", cuCtxSynchronize());
    }
  }
}
const Scene frees_meanwhile("capture-frees-meanwhile", "", FreesMeanwhile);

// cuMemFree waits for the context's work, also while a capture is open: what was copied out can be read.
void FreeWaits() {
  StartDevice();
  const Kernels kernels;
  const CUstream stream = NewStream();
  const CUstream captured = NewStream();
  unsigned* pinned = nullptr;
  Must("pinned", cuMemAllocHost(reinterpret_cast<void**>(&pinned), 4096));
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  Must("exchange", cuThreadExchangeStreamCaptureMode(&mode));
  for (const std::size_t bytes : kSizes) {
    const CUdeviceptr source = Allocate(4096);
    const CUdeviceptr block = Allocate(bytes);
    pinned[0] = 0;
    Begin(captured);
    Must("fill", kernels.Fill(stream, source, 1024, 9));
    Must("copy", cuMemcpyDtoHAsync(pinned, source, 4096, stream));
    Say("free", cuMemFree(block));
    Print("copied %u", pinned[0]);
    Expect(pinned[0] == 9, "the copy is complete");
    SayEnd(captured);
    Say("free", cuMemFree(source));
  }
}
const Scene free_waits("capture-free-waits", "", FreeWaits);

// What was freed during a capture is free, as long as the graph may live.
void MemoryAfterFrees() {
  StartDevice();
  const CUstream stream = NewStream();
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  Must("exchange", cuThreadExchangeStreamCaptureMode(&mode));
  std::vector<CUgraph> graphs;
  for (int round = 0; round < 4; ++round) {
    std::size_t before = 0;
    std::size_t after = 0;
    std::size_t total = 0;
    Must("info", cuMemGetInfo(&before, &total));
    CUdeviceptr block = 0;
    Say("allocate most", cuMemAlloc(&block, 40 * kMiB));
    Begin(stream);
    Say("free", cuMemFree(block));
    graphs.push_back(End(stream));
    Must("info", cuMemGetInfo(&after, &total));
    Print("round %d: all is free again %d", round, before == after);
    Expect(before == after, "freed is free");
  }
  for (const CUgraph graph : graphs) Say("destroy", cuGraphDestroy(graph));
}
const Scene memory_after_frees("capture-memory-after-frees", "SIMCUDA_MEMORY=64MiB", MemoryAfterFrees);

// Memory that graphs own: allocated and freed in the capture, or outliving it.
void MemoryNodes() {
  StartDevice();
  const Kernels kernels;
  const CUstream stream = NewStream();
  for (const std::size_t bytes : kSizes) {
    const CUdeviceptr out = Allocate(4096);
    CUdeviceptr inside = 0;
    CUdeviceptr outlives = 0;
    Begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    Say("allocate", cuMemAllocAsync(&inside, bytes, stream));
    Say("allocate", cuMemAllocAsync(&outlives, bytes, stream));
    Must("fill", kernels.Fill(stream, inside, 1024, 3));
    Must("copy", kernels.Copy(stream, outlives, inside, 4096));
    Must("copy", kernels.Copy(stream, out, inside, 4096));
    Say("free", cuMemFreeAsync(inside, stream));
    Say("free again", cuMemFreeAsync(inside, stream));
    SayStatus("after the second free", stream);
    const CUgraph graph = End(stream);
    const CUgraphExec exec = Instantiate(graph);
    std::size_t nodes = 0;
    Say("nodes", cuGraphGetNodes(graph, nullptr, &nodes));
    Print("%zu nodes", nodes);
    for (int round = 0; round < 3; ++round) {
      Say("launch", cuGraphLaunch(exec, stream));
      Say("launch before the free", cuGraphLaunch(exec, stream));
      Must("scale", kernels.ScaleAdd(stream, outlives, 1024, 2, 1));
      Say("wait", cuStreamSynchronize(stream));
      Print("out %u outlives %u", ReadWord(out), ReadWord(outlives));
      Expect(ReadWord(out) == 3 && ReadWord(outlives) == 7, "the graph's bytes");
      Say("free", round == 1 ? cuMemFree(outlives) : cuMemFreeAsync(outlives, stream));
    }
    Say("wait", cuStreamSynchronize(stream));
    std::uint64_t used = 0;
    Say("used", cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used));
    Print("graphs use memory %d", used >= 2 * bytes);
    Say("destroy", cuGraphExecDestroy(exec));
    Say("destroy", cuGraphDestroy(graph));
    Say("trim", cuDeviceGraphMemTrim(0));
    Say("free", cuMemFree(out));
  }
}
const Scene memory_nodes("capture-memory-nodes", "", MemoryNodes);

// User objects of the program live as long as its graphs, whatever else is kept for them.
void UserObjects() {
  StartDevice();
  const CUstream stream = NewStream();
  static std::atomic<int> destroyed{0};
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  Must("exchange", cuThreadExchangeStreamCaptureMode(&mode));
  for (const std::size_t bytes : kSizes) {
    destroyed = 0;
    const CUdeviceptr used = Allocate(bytes);
    const CUdeviceptr freed = Allocate(bytes);
    Begin(stream);
    Must("memset", cuMemsetD32Async(used, 4, 1024, stream));
    Say("free", cuMemFree(freed));
    const CUgraph graph = End(stream);
    CUuserObject object = nullptr;
    Must("object",
         cuUserObjectCreate(&object, nullptr, [](void*) { ++destroyed; }, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    Say("retain", cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    const CUgraphExec exec = Instantiate(graph);
    Say("destroy", cuGraphDestroy(graph));
    Say("launch", cuGraphLaunch(exec, stream));
    Say("wait", cuStreamSynchronize(stream));
    Print("destroyed %d", destroyed.load());
    Say("destroy", cuGraphExecDestroy(exec));
    for (int i = 0; i < 1000 && destroyed == 0; ++i) {
      Must("wait", cuStreamSynchronize(stream));
      std::this_thread::yield();
    }
    while (destroyed == 0) std::this_thread::yield();
    Print("destroyed %d", destroyed.load());
    Say("free", cuMemFree(used));
  }
}
const Scene user_objects("capture-user-objects", "", UserObjects);

}  // namespace
}  // namespace semantics
