#include "tools/simcuda/driver/capture.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <utility>

#include "entry_points.h"
#include "tools/simcuda/driver/call.h"
#include "tools/simcuda/driver/queue.h"
#include "tools/simcuda/driver/state.h"

namespace simcuda {
namespace {

CUstreamCaptureMode& ThreadMode() {
  thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  return mode;
}

// "cuMemcpyHtoD_v2_ptds" -> "cuMemcpyHtoD".
std::string PlainName(const char* exported) {
  std::string name = exported;
  for (const char* suffix : {"_ptsz", "_ptds"}) {
    if (name.ends_with(suffix)) name.resize(name.size() - std::strlen(suffix));
  }
  if (name.size() > 3 && name[name.size() - 3] == '_' && name[name.size() - 2] == 'v') name.resize(name.size() - 3);
  return name;
}

// "Potentially unsafe API calls": the reference names cudaMalloc, and by its reason ("not enqueued asynchronously to a
// stream, and not observed by stream capture") all allocation and freeing that is not in stream order. That asking for
// events and streams counts as well is what applications meet: a watchdog thread's cudaEventQuery during another
// thread's global capture (PyTorch's ProcessGroupNCCL captures with "thread_local" or relaxes its own thread for that).
bool Unsafe(const std::string& name) {
  static const auto& names = *new std::set<std::string>{"cuMemAlloc",
                                                        "cuMemAllocPitch",
                                                        "cuMemAllocManaged",
                                                        "cuMemFree",
                                                        "cuMemAllocHost",
                                                        "cuMemHostAlloc",
                                                        "cuMemFreeHost",
                                                        "cuMemHostRegister",
                                                        "cuMemHostUnregister",
                                                        "cuArrayCreate",
                                                        "cuArray3DCreate",
                                                        "cuArrayDestroy",
                                                        "cuMipmappedArrayCreate",
                                                        "cuMipmappedArrayDestroy",
                                                        "cuEventQuery",
                                                        "cuEventSynchronize",
                                                        "cuStreamQuery",
                                                        "cuStreamSynchronize",
                                                        "cuCtxSynchronize"};
  return names.count(name) != 0;
}

// Calls that look at a stream without putting anything into it.
bool Looks(const std::string& name) {
  return name.starts_with("cuStreamGet") || name == "cuStreamIsCapturing" || name == "cuStreamEndCapture" ||
         name == "cuStreamBeginCapture" || name == "cuStreamBeginCaptureToGraph" ||
         name == "cuStreamUpdateCaptureDependencies" || name == "cuStreamSetAttribute" ||
         name == "cuStreamCopyAttributes";
}

// Calls that cannot become nodes: synchronous ones, questions, and those that the reference excludes
// (cuStreamAttachMemAsync in the Programming Guide; cuStreamAddCallback: "unlike callbacks", cuLaunchHostFunc is
// supported in capture). Prefetching has no kind of node.
bool CannotBeCaptured(const std::string& name) {
  if (name == "cuStreamSynchronize" || name == "cuStreamQuery" || name == "cuStreamAttachMemAsync" ||
      name == "cuStreamAddCallback" || name.starts_with("cuMemPrefetch") || name == "cuGraphUpload") {
    return true;
  }
  const bool fills_or_copies = name.starts_with("cuMemcpy") || name.starts_with("cuMemset");
  return fills_or_copies && name.find("Async") == std::string::npos;
}

void Invalidate(Capture& capture) { capture.invalidated = true; }

bool LocalAndBinding(const Capture& capture) {
  return capture.thread == ThreadNumber() && capture.mode != CU_STREAM_CAPTURE_MODE_RELAXED;
}

// Everything about the capture ends but its graph.
void Close(const std::shared_ptr<Capture>& capture) {
  for (const auto& stream : capture->streams) stream->capture = nullptr;
  capture->streams.clear();
  capture->origin = nullptr;
  capture->ended = true;
  --capture->graph->captures;
  capture->graph = nullptr;
  std::erase(State::Get().captures.open, capture);
}

void AddDependencies(std::vector<Dependency>* to, const std::vector<Dependency>& more) {
  for (const Dependency& dependency : more) {
    const bool known =
        std::any_of(to->begin(), to->end(), [&](const Dependency& other) { return other.node == dependency.node; });
    if (!known) to->push_back(dependency);
  }
}

// The graph that only the driver owned goes away with a capture that failed.
void DropGraph(const Capture& capture) {
  if (!capture.to_existing_graph) ForgetGraph(*capture.graph);
}

CUgraphNodeType TypeOf(const Work& work) {
  if (work.host_function) return CU_GRAPH_NODE_TYPE_HOST;
  if (std::strcmp(work.what, "memset") == 0) return CU_GRAPH_NODE_TYPE_MEMSET;
  if (std::strcmp(work.what, "copy") == 0) return CU_GRAPH_NODE_TYPE_MEMCPY;
  if (std::strstr(work.what, "_value") != nullptr) return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
  return CU_GRAPH_NODE_TYPE_KERNEL;
}

}  // namespace

CUresult BeginCapture(const std::shared_ptr<Stream>& stream, CUstreamCaptureMode mode,
                      const std::shared_ptr<Graph>& graph, std::vector<Dependency> dependencies) {
  State& state = State::Get();
  if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  // "Capture may not be initiated if stream is CU_STREAM_LEGACY ... only if the stream is not already in capture mode."
  if (stream->legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  for (const Dependency& dependency : dependencies) {
    if (dependency.node->graph != graph.get()) return CUDA_ERROR_INVALID_VALUE;
  }
  auto capture = std::make_shared<Capture>();
  capture->id = state.graphs.next_capture_id++;
  capture->mode = mode;
  capture->thread = ThreadNumber();
  capture->to_existing_graph = graph != nullptr;
  capture->graph = graph ? graph : NewGraph();
  ++capture->graph->captures;
  capture->origin = stream;
  capture->streams.push_back(stream);
  stream->capture = std::make_shared<StreamCapture>();
  stream->capture->capture = capture;
  stream->capture->next = std::move(dependencies);
  state.captures.open.push_back(capture);
  return CUDA_SUCCESS;
}

CUresult EndCapture(const std::shared_ptr<Stream>& stream, std::shared_ptr<Graph>* graph) {
  graph->reset();
  if (!stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  const std::shared_ptr<Capture> capture = stream->capture->capture;
  if (capture->origin != stream) {
    Invalidate(*capture);
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != ThreadNumber()) {
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  }
  CUresult result = capture->invalidated ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
  // Every stream that joined must have been joined back: its last nodes come before the origin's next one.
  for (const auto& other : capture->streams) {
    for (const Dependency& last : other->capture->next) {
      const bool joined = std::any_of(stream->capture->next.begin(), stream->capture->next.end(),
                                      [&](const Dependency& end) { return ComesBefore(last.node, end.node); });
      if (!joined && result == CUDA_SUCCESS) result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    }
  }
  const std::shared_ptr<Graph> captured = capture->graph;
  if (result != CUDA_SUCCESS) DropGraph(*capture);
  Close(capture);
  if (result == CUDA_SUCCESS) *graph = captured;
  return result;
}

void CaptureStreamGone(const std::shared_ptr<Stream>& stream) {
  if (!stream->capture) return;
  const std::shared_ptr<Capture> capture = stream->capture->capture;
  Invalidate(*capture);
  if (capture->origin == stream) {
    DropGraph(*capture);
    return Close(capture);
  }
  std::erase(capture->streams, stream);
  stream->capture = nullptr;
}

CUresult CaptureNode(Stream& stream, std::shared_ptr<const NodeDetails> details, std::shared_ptr<const Work> work,
                     std::shared_ptr<Node>* added) {
  StreamCapture& part = *stream.capture;
  if (part.capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  const CUresult result =
      AddNode(*part.capture->graph, part.next, stream.owner, std::move(details), std::move(work), added);
  if (result == CUDA_SUCCESS) part.next = {{added->get(), {}}};
  return result;
}

std::shared_ptr<Work> CaptureWork(const std::shared_ptr<Stream>& stream, std::shared_ptr<Work> work) {
  auto done = std::make_shared<Work>();
  done->done = true;
  std::shared_ptr<Node> node;
  const std::shared_ptr<const NodeDetails> details = work->details ? work->details : NewDetails(TypeOf(*work));
  CaptureNode(*stream, details, std::move(work), &node);
  return done;
}

CUresult CaptureRecord(const std::shared_ptr<Stream>& stream, const std::shared_ptr<Event>& event, bool external,
                       bool* handled) {
  *handled = stream->capture != nullptr;
  // "This flag is invalid outside of stream capture."
  if (!stream->capture) return external ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  if (external) {
    std::shared_ptr<Node> node;
    return CaptureNode(*stream, NewDetails(CU_GRAPH_NODE_TYPE_EVENT_RECORD, EventNode{event}), nullptr, &node);
  }
  event->captured = std::make_shared<StreamCapture>();
  event->captured->capture = stream->capture->capture;
  event->captured->next = stream->capture->next;
  return CUDA_SUCCESS;
}

CUresult CaptureWait(const std::shared_ptr<Stream>& stream, const std::shared_ptr<Event>& event, bool external,
                     bool* handled) {
  *handled = true;
  StreamCapture* part = stream->capture.get();
  if (external) {
    if (part == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<Node> node;
    return CaptureNode(*stream, NewDetails(CU_GRAPH_NODE_TYPE_WAIT_EVENT, EventNode{event}), nullptr, &node);
  }
  if (!event->captured) {
    if (part != nullptr && (event->record || SharedEvents::Elsewhere(*event))) {
      // "It is invalid to wait on a non-captured event from a stream which is being captured."
      Invalidate(*part->capture);
      return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    *handled = part != nullptr;  // an event that was never recorded stands for no work
    return CUDA_SUCCESS;
  }
  Capture& capture = *event->captured->capture;
  if (capture.ended) {
    if (part != nullptr) Invalidate(*part->capture);
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (part != nullptr && part->capture.get() != &capture) {
    Invalidate(*part->capture);
    Invalidate(capture);
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (capture.invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (stream->legacy) {
    Invalidate(capture);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  if (part == nullptr) {
    stream->capture = std::make_shared<StreamCapture>();
    stream->capture->capture = event->captured->capture;
    capture.streams.push_back(stream);
    part = stream->capture.get();
  }
  AddDependencies(&part->next, event->captured->next);
  return CUDA_SUCCESS;
}

CUresult CheckEventUse(const Event& event) {
  if (!event.captured) return CUDA_SUCCESS;
  Invalidate(*event.captured->capture);
  return CUDA_ERROR_CAPTURED_EVENT;
}

CUresult CheckContextUse(const Context& context) {
  CUresult result = CUDA_SUCCESS;
  for (const auto& capture : State::Get().captures.open) {
    const bool here = std::any_of(capture->streams.begin(), capture->streams.end(),
                                  [&](const auto& stream) { return stream->context == &context; });
    if (!here) continue;
    Invalidate(*capture);
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}

CUresult CheckStreamUse(const Stream& stream) {
  const Captures& captures = State::Get().captures;
  if (captures.open.empty() || Call::Current() == nullptr) return CUDA_SUCCESS;
  const std::string name = PlainName(Call::Current()->info().name);
  const bool asks = name == "cuStreamIsCapturing" || name == "cuStreamGetCaptureInfo";
  if (stream.legacy && (asks || !Looks(name))) {
    CUresult result = CUDA_SUCCESS;
    for (const auto& capture : captures.open) {
      for (const auto& other : capture->streams) {
        if (other->context != stream.context || !other->blocking()) continue;
        if (!asks) Invalidate(*capture);
        result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
      }
    }
    return result;
  }
  if (!stream.capture || Looks(name)) return CUDA_SUCCESS;
  Capture& capture = *stream.capture->capture;
  if (capture.invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!CannotBeCaptured(name)) return CUDA_SUCCESS;
  Invalidate(capture);
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult CheckUnsafeCall(const char* exported) {
  const Captures& captures = State::Get().captures;
  if (captures.open.empty() || ThreadMode() == CU_STREAM_CAPTURE_MODE_RELAXED || !Unsafe(PlainName(exported))) {
    return CUDA_SUCCESS;
  }
  CUresult result = CUDA_SUCCESS;
  for (const auto& capture : captures.open) {
    const bool elsewhere = ThreadMode() == CU_STREAM_CAPTURE_MODE_GLOBAL && capture->thread != ThreadNumber() &&
                           capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!LocalAndBinding(*capture) && !elsewhere) continue;
    Invalidate(*capture);
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}

CUresult impl::cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  if (mode == nullptr || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::swap(ThreadMode(), *mode);
  return CUDA_SUCCESS;
}

}  // namespace simcuda
