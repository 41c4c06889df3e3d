// Blocks that the program frees while it captures work that uses them, and the replays afterwards. Natively such a
// replay is undefined; with us it has its own bytes as long as a graph lives, and the memory comes back after the last
// one.
//
// argv[1]: which way of allocating and freeing, as in Ways.
#include <chrono>
#include <thread>
#include <vector>

#include "tests/interpose/semantics/scene.h"

namespace semantics {
namespace {

struct Way {
  std::size_t bytes;
  bool in_stream;        // cuMemAllocAsync
  bool freed_in_stream;  // cuMemFreeAsync, in another stream than the captured one
};

enum class Keeper { kExec, kClone, kChild, kCapturedLaunch };

CUgraphExec Instantiate(CUgraph graph) {
  CUgraphExec exec = nullptr;
  Must("instantiate", cuGraphInstantiate(&exec, graph, 0));
  return exec;
}

// Leaves one executable graph, by a way over which the driver must carry what the captured graph holds.
CUgraphExec Keep(Keeper keeper, CUgraph graph, CUstream stream) {
  CUgraph other = nullptr;
  CUgraphExec exec = nullptr;
  CUgraphNode node = nullptr;
  switch (keeper) {
    case Keeper::kExec:
      exec = Instantiate(graph);
      break;
    case Keeper::kClone:
      Must("clone", cuGraphClone(&other, graph));
      exec = Instantiate(other);
      break;
    case Keeper::kChild:
      Must("create", cuGraphCreate(&other, 0));
      Must("child", cuGraphAddChildGraphNode(&node, other, nullptr, 0, graph));
      exec = Instantiate(other);
      break;
    case Keeper::kCapturedLaunch: {
      const CUgraphExec inner = Instantiate(graph);
      Must("begin", cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
      Must("launch", cuGraphLaunch(inner, stream));
      Must("end", cuStreamEndCapture(stream, &other));
      Must("destroy", cuGraphExecDestroy(inner));
      exec = Instantiate(other);
      break;
    }
  }
  if (other != nullptr) Must("destroy", cuGraphDestroy(other));
  Must("destroy", cuGraphDestroy(graph));
  return exec;
}

CUdeviceptr Take(const Way& way, CUstream stream) {
  CUdeviceptr block = 0;
  Must("allocate", way.in_stream ? cuMemAllocAsync(&block, way.bytes, stream) : cuMemAlloc(&block, way.bytes));
  return block;
}

void Give(const Way& way, CUdeviceptr block, CUstream stream) {
  Must("free", way.freed_in_stream ? cuMemFreeAsync(block, stream) : cuMemFree(block));
}

// Neighbours that are free by then make one range, so that a later block may begin elsewhere.
bool Overlap(const Way& way, CUdeviceptr a, CUdeviceptr b) { return a < b + way.bytes && b < a + way.bytes; }

void Run(const Way& way, Keeper keeper) {
  StartDevice();
  const Kernels kernels;
  const CUstream stream = NewStream();
  const CUstream other = NewStream();
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  Must("exchange", cuThreadExchangeStreamCaptureMode(&mode));
  const CUdeviceptr out = Allocate(4096);
  const CUdeviceptr block = Take(way, other);
  Must("fill", kernels.Fill(other, block, 1024, 1));
  Must("wait", cuStreamSynchronize(other));

  Must("begin", cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  Must("scale", kernels.ScaleAdd(stream, block, 1024, 2, 1));
  Must("copy", kernels.Copy(stream, out, block, 4096));
  Give(way, block, other);
  CUgraph graph = nullptr;
  Must("end", cuStreamEndCapture(stream, &graph));
  const CUgraphExec exec = Keep(keeper, graph, stream);

  std::vector<CUdeviceptr> later;
  bool reused = false;
  unsigned expected = 1;
  for (unsigned round = 0; round < 4; ++round) {
    Must("wait", cuCtxSynchronize());  // all that the free was waiting for
    later.push_back(Take(way, other));
    reused |= Overlap(way, later.back(), block);
    Must("fill", kernels.Fill(other, later.back(), 1024, 100 + round));
    Must("wait", cuStreamSynchronize(other));
    Must("launch", cuGraphLaunch(exec, stream));
    Must("wait", cuStreamSynchronize(stream));
    expected = expected * 2 + 1;
    const unsigned seen = ReadWord(out);
    Print("round %u: %s", round, seen == expected && ReadWord(later.back()) == 100 + round ? "right" : "wrong");
  }
  Print("reused while the graph lived: %d", reused);

  // In flight when its last handle goes.
  Must("launch", cuGraphLaunch(exec, stream));
  Must("destroy", cuGraphExecDestroy(exec));
  expected = expected * 2 + 1;
  later.push_back(Take(way, other));
  Must("fill", kernels.Fill(other, later.back(), 1024, 200));
  Must("wait", cuStreamSynchronize(stream));
  Must("wait", cuStreamSynchronize(other));
  Print("in flight: %s", ReadWord(out) == expected && ReadWord(later.back()) == 200 ? "right" : "wrong");
  // The driver tells of the graph's end on a thread of its own.
  reused = Overlap(way, later.back(), block);
  for (int i = 0; i < 5000 && !reused; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    Must("wait", cuCtxSynchronize());
    later.push_back(Take(way, other));
    reused = Overlap(way, later.back(), block);
    if (later.size() > 64) {
      for (const CUdeviceptr each : later) Give(way, each, other);
      later.clear();
    }
  }
  Print("reused after the graph: %d", reused);
}

const Way kSmall{6000, false, false}, kLarge{5 * kMiB, false, false}, kMixed{5 * kMiB, false, true};
const Way kStreamSmall{6000, true, true}, kStreamLarge{5 * kMiB, true, true}, kStreamNow{5 * kMiB, true, false};

const Scene small("small", "simulated", [] { Run(kSmall, Keeper::kExec); });
const Scene large("large", "simulated", [] { Run(kLarge, Keeper::kExec); });
const Scene mixed("freed-in-stream", "simulated", [] { Run(kMixed, Keeper::kExec); });
const Scene stream_small("stream-small", "simulated", [] { Run(kStreamSmall, Keeper::kExec); });
const Scene stream_large("stream-large", "simulated", [] { Run(kStreamLarge, Keeper::kExec); });
const Scene stream_now("stream-freed-now", "simulated", [] { Run(kStreamNow, Keeper::kExec); });
const Scene cloned("clone", "simulated", [] { Run(kSmall, Keeper::kClone); });
const Scene child("child", "simulated", [] { Run(kLarge, Keeper::kChild); });
const Scene launched("captured-launch", "simulated", [] { Run(kStreamLarge, Keeper::kCapturedLaunch); });

}  // namespace
}  // namespace semantics
