// The router's part in stream capture: what a free means while a capture is open, and what is kept for graphs.
#include <utility>

#include "interpose/router.h"

namespace cuheap {
namespace {

// Runs on a thread of the driver's when the last graph that refers to the pins is gone.
void CUDA_CB DropPins(void* pins) { delete static_cast<std::vector<CaptureWatch::Pin>*>(pins); }

bool IsOfCapture(CUresult result) {
  return result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

}  // namespace

// Natively a free may be forbidden to the thread, invalidate captures, and wait for the context's work. A block of the
// driver's own, as small as can be, is told all that: which calls count as unsafe is the driver's to say.
// Source: CUDA Driver API, cuThreadExchangeStreamCaptureMode, cuMemFree.
CUresult Router::AskForFreeDuringCapture(std::uint64_t context) {
  const ContextScope scope(driver_, context);
  if (scope.result() != CUDA_SUCCESS) return Observe(scope.result());
  CUdeviceptr probe = 0;
  CUresult result = driver_.cuMemAlloc_v2(&probe, 1);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return CUDA_SUCCESS;  // nobody to ask; a free does not fail for that
  if (result != CUDA_SUCCESS) return Observe(result);
  result = driver_.cuMemFree_v2(probe);
  if (IsOfCapture(result)) {  // another thread began a capture meanwhile
    const RelaxedCapture relaxed(driver_);
    driver_.cuMemFree_v2(probe);
  }
  return Observe(result);
}

void Router::CaptureOver(CaptureWatch::Key key, CUresult result, CUgraph graph) {
  CaptureWatch::Over over = captures_.Ended(key);
  if (over.pins.empty()) return;
  // A failed capture into a graph of the program's leaves there what it had captured; any other leaves nothing.
  if (result != CUDA_SUCCESS) graph = reinterpret_cast<CUgraph>(over.graph);
  if (graph != nullptr) KeepForGraph(graph, std::move(over.pins));
}

void Router::KeepForGraph(CUgraph graph, std::vector<CaptureWatch::Pin> pins) {
  auto* const kept = new std::vector<CaptureWatch::Pin>(std::move(pins));
  if (driver_.cuUserObjectCreate != nullptr && driver_.cuGraphRetainUserObject != nullptr) {
    const RelaxedCapture relaxed(driver_);
    CUuserObject object = nullptr;
    if (driver_.cuUserObjectCreate(&object, kept, DropPins, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) == CUDA_SUCCESS &&
        driver_.cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE) == CUDA_SUCCESS) {
      return;
    }
  }
  // Nobody will tell when the graph is gone: `kept` is never deleted, on purpose.
  // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDeleteLeaks)
  recorder::Note(journal::NoteCode::kCapture,
                 "the driver does not tell when a graph is gone: blocks freed during its capture are kept for good");
}

}  // namespace cuheap
