// Stream Management (Driver API reference 6.18): capture.
#include <algorithm>
#include <cstring>
#include <memory>

#include "entry_points.h"
#include "tools/simcuda/driver/capture.h"
#include "tools/simcuda/driver/state.h"

namespace simcuda {
namespace {

bool HasData(const CUgraphEdgeData& data) {
  constexpr CUgraphEdgeData kNone{};
  return std::memcmp(&data, &kNone, sizeof kNone) != 0;
}

}  // namespace

CUresult impl::cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode) {
  std::shared_ptr<Stream> stream;
  if (const CUresult result = FindStream(hStream, &stream)) return result;
  return BeginCapture(stream, mode, nullptr, {});
}

// The first version had no mode: global.
CUresult impl::cuStreamBeginCapture(CUstream hStream) {
  return impl::cuStreamBeginCapture_v2(hStream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult impl::cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph, const CUgraphNode* dependencies,
                                           const CUgraphEdgeData* dependencyData, size_t numDependencies,
                                           CUstreamCaptureMode mode) {
  std::shared_ptr<Stream> stream;
  std::shared_ptr<Graph> graph;
  std::vector<Dependency> after;
  if (const CUresult result = FindStream(hStream, &stream)) return result;
  if (const CUresult result = FindGraph(hGraph, &graph)) return result;
  if (const CUresult result = FindDependencies(dependencies, dependencyData, numDependencies, &after)) return result;
  return BeginCapture(stream, mode, graph, std::move(after));
}

CUresult impl::cuStreamEndCapture(CUstream hStream, CUgraph* phGraph) {
  std::shared_ptr<Stream> stream;
  if (phGraph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = FindStream(hStream, &stream)) return result;
  std::shared_ptr<Graph> graph;
  const CUresult result = EndCapture(stream, &graph);
  if (result != CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD) *phGraph = graph ? graph->handle : nullptr;
  return result;
}

CUresult impl::cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus* captureStatus) {
  std::shared_ptr<Stream> stream;
  if (captureStatus == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = FindStream(hStream, &stream)) return result;
  *captureStatus = !stream->capture                        ? CU_STREAM_CAPTURE_STATUS_NONE
                   : stream->capture->capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                                           : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return CUDA_SUCCESS;
}

CUresult impl::cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus* captureStatus_out, cuuint64_t* id_out,
                                         CUgraph* graph_out, const CUgraphNode** dependencies_out,
                                         const CUgraphEdgeData** edgeData_out, size_t* numDependencies_out) {
  std::shared_ptr<Stream> stream;
  if (edgeData_out != nullptr && dependencies_out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = impl::cuStreamIsCapturing(hStream, captureStatus_out)) return result;
  if (*captureStatus_out != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
  if (const CUresult result = FindStream(hStream, &stream)) return result;
  StreamCapture& part = *stream->capture;
  const bool annotated =
      std::any_of(part.next.begin(), part.next.end(), [](const Dependency& next) { return HasData(next.data); });
  if (annotated && dependencies_out != nullptr && edgeData_out == nullptr) return CUDA_ERROR_LOSSY_QUERY;
  part.shown_nodes.clear();
  part.shown_edges.clear();
  for (const Dependency& next : part.next) {
    part.shown_nodes.push_back(next.node->handle);
    part.shown_edges.push_back(next.data);
  }
  if (id_out != nullptr) *id_out = part.capture->id;
  if (graph_out != nullptr) *graph_out = part.capture->graph->handle;
  if (dependencies_out != nullptr) *dependencies_out = part.shown_nodes.data();
  if (edgeData_out != nullptr) *edgeData_out = part.shown_edges.data();
  if (numDependencies_out != nullptr) *numDependencies_out = part.next.size();
  return CUDA_SUCCESS;
}

CUresult impl::cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus* captureStatus_out, cuuint64_t* id_out,
                                         CUgraph* graph_out, const CUgraphNode** dependencies_out,
                                         size_t* numDependencies_out) {
  return impl::cuStreamGetCaptureInfo_v3(hStream, captureStatus_out, id_out, graph_out, dependencies_out, nullptr,
                                         numDependencies_out);
}

CUresult impl::cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus* captureStatus_out, cuuint64_t* id_out) {
  if (id_out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return impl::cuStreamGetCaptureInfo_v3(hStream, captureStatus_out, id_out, nullptr, nullptr, nullptr, nullptr);
}

CUresult impl::cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode* dependencies,
                                                    const CUgraphEdgeData* dependencyData, size_t numDependencies,
                                                    unsigned int flags) {
  std::shared_ptr<Stream> stream;
  std::vector<Dependency> given;
  if (const CUresult result = FindStream(hStream, &stream)) return result;
  if (flags != CU_STREAM_ADD_CAPTURE_DEPENDENCIES && flags != CU_STREAM_SET_CAPTURE_DEPENDENCIES) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  StreamCapture& part = *stream->capture;
  if (part.capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (const CUresult result = FindDependencies(dependencies, dependencyData, numDependencies, &given)) return result;
  for (const Dependency& dependency : given) {
    if (dependency.node->graph != part.capture->graph.get()) return CUDA_ERROR_INVALID_VALUE;
  }
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) part.next.clear();
  for (const Dependency& dependency : given) {
    std::erase_if(part.next, [&](const Dependency& known) { return known.node == dependency.node; });
    part.next.push_back(dependency);
  }
  return CUDA_SUCCESS;
}

CUresult impl::cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode* dependencies, size_t numDependencies,
                                                 unsigned int flags) {
  return impl::cuStreamUpdateCaptureDependencies_v2(hStream, dependencies, nullptr, numDependencies, flags);
}

}  // namespace simcuda
