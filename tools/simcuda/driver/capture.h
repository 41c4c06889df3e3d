// Stream capture (CUDA C++ Programming Guide, "Creating a Graph Using Stream Capture"; Driver API reference,
// cuStreamBeginCapture, cuThreadExchangeStreamCaptureMode).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tools/simcuda/driver/graph.h"

namespace simcuda {

// One capture sequence, from cuStreamBeginCapture to cuStreamEndCapture.
struct Capture {
  uint64_t id = 0;  // unique over the lifetime of the process
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  uint64_t thread = 0;  // that began it
  bool to_existing_graph = false;
  bool invalidated = false;
  bool ended = false;
  std::shared_ptr<Graph> graph;  // null once it has ended
  std::shared_ptr<Stream> origin;
  std::vector<std::shared_ptr<Stream>> streams;  // all that capture into it, `origin` included
};

// A stream's part of a capture, or what an event recorded there stands for.
struct StreamCapture {
  std::shared_ptr<Capture> capture;
  std::vector<Dependency> next;  // what the next node will depend on
  // What cuStreamGetCaptureInfo points to.
  std::vector<CUgraphNode> shown_nodes;
  std::vector<CUgraphEdgeData> shown_edges;
};

// All captures that are open in the process, invalidated ones included.
struct Captures {
  std::vector<std::shared_ptr<Capture>> open;
};

CUresult BeginCapture(const std::shared_ptr<Stream>& stream, CUstreamCaptureMode mode,
                      const std::shared_ptr<Graph>& graph, std::vector<Dependency> dependencies);
// Ends the capture and gives its graph out, or null.
CUresult EndCapture(const std::shared_ptr<Stream>& stream, std::shared_ptr<Graph>* graph);
// Makes `work`, which a call has just queued in the capturing stream, a node instead. The returned piece is done.
std::shared_ptr<Work> CaptureWork(const std::shared_ptr<Stream>& stream, std::shared_ptr<Work> work);
// Adds a node to the capturing stream's graph. Errors: STREAM_CAPTURE_INVALIDATED.
CUresult CaptureNode(Stream& stream, std::shared_ptr<const NodeDetails> details, std::shared_ptr<const Work> work,
                     std::shared_ptr<Node>* added);
// Events and waits while streams capture. `handled` is set if the call is done with that.
CUresult CaptureRecord(const std::shared_ptr<Stream>& stream, const std::shared_ptr<Event>& event, bool external,
                       bool* handled);
CUresult CaptureWait(const std::shared_ptr<Stream>& stream, const std::shared_ptr<Event>& event, bool external,
                     bool* handled);
// For calls that ask for, or wait for, the event's work. Errors: CAPTURED_EVENT, which also ends the capture's
// validity.
CUresult CheckEventUse(const Event& event);
// For calls that wait for everything in the context. Errors: STREAM_CAPTURE_UNSUPPORTED; captures there are invalid
// then.
CUresult CheckContextUse(const Context& context);
// Whether the call that is being made may use the stream, by what it is called: FindStream asks.
// Errors: STREAM_CAPTURE_IMPLICIT (the legacy stream while a blocking stream captures), STREAM_CAPTURE_INVALIDATED,
// STREAM_CAPTURE_UNSUPPORTED (the call cannot be captured).
CUresult CheckStreamUse(const Stream& stream);
// Whether the thread may make the call named `exported` at all. Errors: STREAM_CAPTURE_UNSUPPORTED.
CUresult CheckUnsafeCall(const char* exported);
// The stream goes away, and with it the validity of its capture.
void CaptureStreamGone(const std::shared_ptr<Stream>& stream);

}  // namespace simcuda
