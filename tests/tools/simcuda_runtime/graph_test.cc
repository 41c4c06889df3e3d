// Capture and graphs through the runtime (CUDA Runtime API, "Stream Management", "Graph Management"), as programs that
// are compiled with nvcc use them: kernels by their host functions.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tools/simcuda/runtime/compiler_entry_points.h"

#undef cudaLaunchKernel

namespace {

void ScaleAddStub() {}

class RuntimeGraph : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    static const char image[] = "not read by the simulated driver";
    handle_ = __cudaRegisterFatBinary(const_cast<char*>(image));
    __cudaRegisterFunction(handle_, reinterpret_cast<const char*>(ScaleAddStub), nullptr, "simcuda_scale_add", -1,
                           nullptr, nullptr, nullptr, nullptr, nullptr);
    __cudaRegisterFatBinaryEnd(handle_);
  }
  static void TearDownTestSuite() { __cudaUnregisterFatBinary(handle_); }

  void SetUp() override {
    ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&words_), kWords * 4), cudaSuccess);
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaMemset(words_, 0, kWords * 4), cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
  void TearDown() override {
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    EXPECT_EQ(cudaFree(words_), cudaSuccess);
  }

  std::uint32_t Word() {
    std::vector<std::uint32_t> out(kWords);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(out.data(), words_, kWords * 4, cudaMemcpyDeviceToHost), cudaSuccess);
    return out[kWords - 1];
  }
  // x = x * factor + term.
  cudaKernelNodeParams ScaleAdd(std::uint32_t factor, std::uint32_t term) {
    factor_ = factor;
    term_ = term;
    cudaKernelNodeParams params{};
    params.func = reinterpret_cast<void*>(ScaleAddStub);
    params.gridDim = params.blockDim = dim3(1);
    params.kernelParams = arguments_;
    return params;
  }

  static constexpr std::uint64_t kWords = 256;
  static void** handle_;
  std::uint32_t* words_ = nullptr;
  std::uint64_t count_ = kWords;
  std::uint32_t factor_ = 0, term_ = 0;
  void* arguments_[4] = {static_cast<void*>(&words_), &count_, &factor_, &term_};
  cudaStream_t stream_ = nullptr;
};

void** RuntimeGraph::handle_ = nullptr;

TEST_F(RuntimeGraph, CapturedLaunchesReplay) {
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
  void* pointer = nullptr;
  EXPECT_EQ(cudaMalloc(&pointer, 4096), cudaErrorStreamCaptureUnsupported);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaGetLastError(), cudaErrorStreamCaptureInvalidated);

  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  cudaStreamCaptureStatus status;
  EXPECT_EQ(cudaStreamIsCapturing(stream_, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  ScaleAdd(3, 1);
  EXPECT_EQ(cudaLaunchKernel(reinterpret_cast<const void*>(ScaleAddStub), dim3(1), dim3(1), arguments_, 0, stream_),
            cudaSuccess);
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  EXPECT_EQ(Word(), 0U);
  EXPECT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
  EXPECT_EQ(Word(), 4U);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_F(RuntimeGraph, NodesAreMadeAndChangedByParameters) {
  cudaGraph_t graph = nullptr;
  cudaGraphNode_t fill = nullptr, kernel = nullptr, copy = nullptr, host = nullptr, empty = nullptr;
  std::vector<std::uint32_t> out(kWords);
  int calls = 0;
  ASSERT_EQ(cudaGraphCreate(&graph, 0), cudaSuccess);
  cudaMemsetParams set{words_, 0, 2, 4, kWords, 1};
  ASSERT_EQ(cudaGraphAddMemsetNode(&fill, graph, nullptr, 0, &set), cudaSuccess);
  cudaKernelNodeParams params = ScaleAdd(10, 1);
  ASSERT_EQ(cudaGraphAddKernelNode(&kernel, graph, &fill, 1, &params), cudaSuccess);
  ASSERT_EQ(cudaGraphAddMemcpyNode1D(&copy, graph, nullptr, 0, out.data(), words_, kWords * 4, cudaMemcpyDeviceToHost),
            cudaSuccess);
  const cudaHostNodeParams count{[](void* to) { ++*static_cast<int*>(to); }, &calls};
  ASSERT_EQ(cudaGraphAddHostNode(&host, graph, &copy, 1, &count), cudaSuccess);
  ASSERT_EQ(cudaGraphAddEmptyNode(&empty, graph, &host, 1), cudaSuccess);
  ASSERT_EQ(cudaGraphAddDependencies(graph, &kernel, &copy, nullptr, 1), cudaSuccess);
  std::size_t edges = 0;
  EXPECT_EQ(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges), cudaSuccess);
  EXPECT_EQ(edges, 4U);
  cudaGraphNodeType type;
  EXPECT_EQ(cudaGraphNodeGetType(host, &type), cudaSuccess);
  EXPECT_EQ(type, cudaGraphNodeTypeHost);
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(out[0], 21U);
  set.value = 3;
  params = ScaleAdd(2, 0);
  EXPECT_EQ(cudaGraphExecMemsetNodeSetParams(exec, fill, &set), cudaSuccess);
  EXPECT_EQ(cudaGraphExecKernelNodeSetParams(exec, kernel, &params), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(out[kWords - 1], 6U);
  EXPECT_EQ(calls, 2);
  cudaGraphExecUpdateResultInfo info{};
  EXPECT_EQ(cudaGraphExecUpdate(exec, graph, &info), cudaSuccess);  // what the graph itself still says
  EXPECT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(out[0], 21U);
  cudaKernelNodeParams unknown = params;
  unknown.func = &calls;
  EXPECT_EQ(cudaGraphKernelNodeSetParams(kernel, &unknown), cudaErrorInvalidDeviceFunction);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_F(RuntimeGraph, StreamOrderedMemoryBecomesTheGraphs) {
  void* inside = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
  ASSERT_EQ(cudaMallocAsync(&inside, kWords * 4, stream_), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(inside, 1, kWords * 4, stream_), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(words_, inside, kWords * 4, cudaMemcpyDeviceToDevice, stream_), cudaSuccess);
  EXPECT_EQ(cudaFreeAsync(inside, stream_), cudaSuccess);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
  EXPECT_EQ(Word(), 0x01010101U);
  std::uint64_t used = 0;
  EXPECT_EQ(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &used), cudaSuccess);
  EXPECT_GT(used, 0U);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

}  // namespace
