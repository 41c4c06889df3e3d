// Graphs built by hand, against the Driver API reference ("Graph Management") and the CUDA C++ Programming Guide ("CUDA
// Graphs", "CUDA User Objects").
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "tests/tools/simcuda/simulated.h"

namespace cuheap::testing {
namespace {

constexpr uint64_t kWords = 256;
constexpr size_t kBytes = kWords * sizeof(uint32_t);

std::vector<uint32_t> Read(CUdeviceptr address) {
  std::vector<uint32_t> bytes(kWords);
  EXPECT_CUDA(cuCtxSynchronize());
  EXPECT_CUDA(cuMemcpyDtoH(bytes.data(), address, kBytes));
  return bytes;
}
std::vector<uint32_t> All(uint32_t value) { return std::vector<uint32_t>(kWords, value); }

void InAllOrders(const std::function<void()>& body) {
  for (const char* order : {"late", "eager", "random"}) Simulate({{"SIMCUDA_ORDER", order}}, body);
}

CUgraph NewGraph() {
  CUgraph graph = nullptr;
  EXPECT_CUDA(cuGraphCreate(&graph, 0));
  return graph;
}

CUgraphExec Instantiate(CUgraph graph, unsigned long long flags = 0) {
  CUgraphExec exec = nullptr;
  EXPECT_CUDA(cuGraphInstantiate(&exec, graph, flags));
  return exec;
}

// Kernel parameters: x = x * factor + term, over kWords words.
struct ScaleAdd {
  ScaleAdd(CUdeviceptr address, uint32_t by, uint32_t plus) : x(address), factor(by), term(plus) {}
  CUDA_KERNEL_NODE_PARAMS Params() {
    CUDA_KERNEL_NODE_PARAMS params{};
    params.func = FindFunction("simcuda_scale_add");
    params.gridDimX = params.gridDimY = params.gridDimZ = params.blockDimX = params.blockDimY = params.blockDimZ = 1;
    params.kernelParams = pointers;
    return params;
  }
  CUdeviceptr x;
  uint64_t count = kWords;
  uint32_t factor, term;
  void* pointers[4] = {&x, &count, &factor, &term};
};

CUgraphNode AddScaleAdd(CUgraph graph, const std::vector<CUgraphNode>& after, CUdeviceptr x, uint32_t by,
                        uint32_t plus) {
  ScaleAdd kernel(x, by, plus);
  const CUDA_KERNEL_NODE_PARAMS params = kernel.Params();
  CUgraphNode node = nullptr;
  EXPECT_CUDA(cuGraphAddKernelNode(&node, graph, after.data(), after.size(), &params));
  return node;
}

CUgraphNode AddFill(CUgraph graph, const std::vector<CUgraphNode>& after, CUdeviceptr to, unsigned value) {
  const CUDA_MEMSET_NODE_PARAMS params{to, 0, value, 4, kWords, 1};
  CUgraphNode node = nullptr;
  EXPECT_CUDA(cuGraphAddMemsetNode(&node, graph, after.data(), after.size(), &params, nullptr));
  return node;
}

TEST(Graph, NodesOfEachKindRunInOrderOfTheirDependencies) {
  InAllOrders([] {
    UseDevice();
    const CUstream stream = MakeStream(), other = MakeStream();
    const CUdeviceptr a = Allocate(kBytes), b = Allocate(kBytes);
    std::vector<uint32_t> result(kWords);
    std::atomic<int> calls{0};
    const CUevent event = MakeEvent();
    const CUgraph graph = NewGraph();
    const CUgraphNode fill = AddFill(graph, {}, a, 3);
    const CUgraphNode scale = AddScaleAdd(graph, {fill}, a, 5, 1);
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = a;
    copy.dstDevice = b;
    copy.srcPitch = copy.dstPitch = kBytes;
    copy.WidthInBytes = kBytes;
    copy.Height = copy.Depth = 1;
    CUgraphNode copied = nullptr, host = nullptr, recorded = nullptr, empty = nullptr, waited = nullptr;
    ASSERT_CUDA(cuGraphAddMemcpyNode(&copied, graph, &scale, 1, &copy, nullptr));
    const CUDA_HOST_NODE_PARAMS count{[](void* to) { ++*static_cast<std::atomic<int>*>(to); }, &calls};
    ASSERT_CUDA(cuGraphAddHostNode(&host, graph, &copied, 1, &count));
    ASSERT_CUDA(cuGraphAddEmptyNode(&empty, graph, &host, 1));
    ASSERT_CUDA(cuGraphAddEventRecordNode(&recorded, graph, &empty, 1, event));
    ASSERT_CUDA(cuGraphAddEventWaitNode(&waited, graph, nullptr, 0, event));
    const std::vector<std::pair<CUgraphNode, CUgraphNodeType>> types = {
        {fill, CU_GRAPH_NODE_TYPE_MEMSET},      {scale, CU_GRAPH_NODE_TYPE_KERNEL},
        {copied, CU_GRAPH_NODE_TYPE_MEMCPY},    {host, CU_GRAPH_NODE_TYPE_HOST},
        {empty, CU_GRAPH_NODE_TYPE_EMPTY},      {recorded, CU_GRAPH_NODE_TYPE_EVENT_RECORD},
        {waited, CU_GRAPH_NODE_TYPE_WAIT_EVENT}};
    for (const auto& [node, expected] : types) {
      CUgraphNodeType type;
      EXPECT_CUDA(cuGraphNodeGetType(node, &type));
      EXPECT_EQ(type, expected);
    }
    const CUgraphExec exec = Instantiate(graph);
    ASSERT_CUDA(cuGraphLaunch(exec, stream));
    ASSERT_CUDA(cuStreamWaitEvent(other, event, 0));
    ASSERT_CUDA(cuMemcpyDtoHAsync(result.data(), b, kBytes, other));
    EXPECT_EQ(result, All(16));
    EXPECT_EQ(calls, 1);
    ASSERT_CUDA(cuGraphLaunch(exec, stream));
    ASSERT_CUDA(cuGraphLaunch(exec, other));  // behind the launch before
    EXPECT_EQ(Read(b), All(16));
    EXPECT_EQ(calls, 3);
  });
}

TEST(Graph, EdgesCanBeReadAddedAndRemoved) {
  Simulate({}, [] {
    UseDevice();
    const CUdeviceptr a = Allocate(kBytes);
    const CUgraph graph = NewGraph();
    const CUgraphNode first = AddFill(graph, {}, a, 1), second = AddFill(graph, {first}, a, 2),
                      third = AddFill(graph, {}, a, 3);
    const CUgraphNode duplicates[] = {first, first};
    CUgraphNode refused = nullptr;
    EXPECT_EQ(cuGraphAddEmptyNode(&refused, graph, duplicates, 2), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuGraphAddDependencies(graph, &first, &second, nullptr, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CUDA(cuGraphAddDependencies(graph, &second, &third, nullptr, 1));
    CUgraphNode from[4], to[4];
    size_t count = 4;
    EXPECT_CUDA(cuGraphGetEdges(graph, from, to, nullptr, &count));
    ASSERT_EQ(count, 2u);
    EXPECT_EQ(from[0], first);
    EXPECT_EQ(to[0], second);
    EXPECT_EQ(from[2], nullptr);
    count = 0;
    EXPECT_CUDA(cuGraphGetRootNodes(graph, nullptr, &count));
    EXPECT_EQ(count, 1u);
    EXPECT_CUDA(cuGraphNodeGetDependentNodes(second, to, nullptr, &(count = 4)));
    EXPECT_EQ(count, 1u);
    EXPECT_EQ(to[0], third);
    // A cycle is found when the graph is instantiated.
    EXPECT_CUDA(cuGraphAddDependencies(graph, &third, &first, nullptr, 1));
    CUgraphExec exec = nullptr;
    CUDA_GRAPH_INSTANTIATE_PARAMS params{};
    EXPECT_EQ(cuGraphInstantiateWithParams(&exec, graph, &params), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(params.result_out, CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
    EXPECT_NE(params.hErrNode_out, nullptr);
    EXPECT_CUDA(cuGraphRemoveDependencies(graph, &third, &first, nullptr, 1));
    EXPECT_EQ(cuGraphRemoveDependencies(graph, &third, &first, nullptr, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CUDA(cuGraphDestroyNode(second));
    EXPECT_CUDA(cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &count));
    EXPECT_EQ(count, 0u);
    EXPECT_CUDA(cuGraphDestroy(graph));
    EXPECT_EQ(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
  });
}

// "The original graph may be modified after this call without affecting the clone"; "the child graph is cloned".
TEST(Graph, ClonesAndChildGraphsAreCopies) {
  InAllOrders([] {
    UseDevice();
    const CUstream stream = MakeStream();
    const CUdeviceptr a = Allocate(kBytes);
    const CUgraph graph = NewGraph(), parent = NewGraph();
    const CUgraphNode fill = AddFill(graph, {}, a, 3);
    CUgraph clone = nullptr, inner = nullptr;
    CUgraphNode child = nullptr, cloned = nullptr;
    ASSERT_CUDA(cuGraphClone(&clone, graph));
    ASSERT_CUDA(cuGraphNodeFindInClone(&cloned, fill, clone));
    EXPECT_NE(cloned, fill);
    ASSERT_CUDA(cuGraphAddChildGraphNode(&child, parent, nullptr, 0, graph));
    AddScaleAdd(parent, {child}, a, 10, 1);
    ASSERT_CUDA(cuGraphChildGraphNodeGetGraph(child, &inner));
    EXPECT_NE(inner, graph);
    EXPECT_EQ(cuGraphDestroy(inner), CUDA_ERROR_INVALID_VALUE);
    const CUDA_MEMSET_NODE_PARAMS seven{a, 0, 7, 4, kWords, 1};
    ASSERT_CUDA(cuGraphMemsetNodeSetParams(fill, &seven));
    ASSERT_CUDA(cuGraphLaunch(Instantiate(clone), stream));
    EXPECT_EQ(Read(a), All(3));
    ASSERT_CUDA(cuGraphLaunch(Instantiate(graph), stream));
    EXPECT_EQ(Read(a), All(7));
    const CUgraphExec exec = Instantiate(parent);
    EXPECT_CUDA(cuGraphDestroy(graph));
    EXPECT_CUDA(cuGraphDestroy(parent));
    EXPECT_EQ(cuGraphChildGraphNodeGetGraph(child, &inner), CUDA_ERROR_INVALID_VALUE);
    ASSERT_CUDA(cuGraphLaunch(exec, stream));
    EXPECT_EQ(Read(a), All(31));
  });
}

// "The modifications only affect future launches of hGraphExec."
TEST(Graph, ParametersOfExecutableGraphsChangeFutureLaunches) {
  InAllOrders([] {
    UseDevice();
    const CUstream stream = MakeStream();
    const CUdeviceptr a = Allocate(kBytes), b = Allocate(kBytes);
    const CUgraph graph = NewGraph();
    const CUgraphNode fill = AddFill(graph, {}, a, 1);
    const CUgraphNode kernel = AddScaleAdd(graph, {fill}, a, 2, 0);
    const CUgraphExec exec = Instantiate(graph);
    ASSERT_CUDA(cuGraphLaunch(exec, stream));
    const CUDA_MEMSET_NODE_PARAMS to_b{b, 0, 20, 4, kWords, 1};
    ASSERT_CUDA(cuGraphExecMemsetNodeSetParams(exec, fill, &to_b, nullptr));
    ScaleAdd changed(b, 3, 4);
    const CUDA_KERNEL_NODE_PARAMS params = changed.Params();
    ASSERT_CUDA(cuGraphExecKernelNodeSetParams(exec, kernel, &params));
    ASSERT_CUDA(cuGraphLaunch(exec, stream));
    EXPECT_EQ(Read(a), All(2));
    EXPECT_EQ(Read(b), All(64));
    CUDA_KERNEL_NODE_PARAMS seen{};
    ASSERT_CUDA(cuGraphKernelNodeGetParams(kernel, &seen));  // the node itself is as it was
    EXPECT_EQ(*static_cast<CUdeviceptr*>(seen.kernelParams[0]), a);
    EXPECT_EQ(seen.func, FindFunction("simcuda_scale_add"));
    ASSERT_CUDA(cuGraphNodeSetEnabled(exec, kernel, 0));
    ASSERT_CUDA(cuGraphLaunch(exec, stream));
    EXPECT_EQ(Read(b), All(20));
    unsigned enabled = 1;
    EXPECT_CUDA(cuGraphNodeGetEnabled(exec, kernel, &enabled));
    EXPECT_EQ(enabled, 0u);
  });
}

TEST(Graph, UpdateTakesParametersOfAGraphOfTheSameShape) {
  Simulate({}, [] {
    UseDevice();
    const CUstream stream = MakeStream();
    const CUdeviceptr a = Allocate(kBytes), b = Allocate(kBytes);
    const CUgraph graph = NewGraph(), same = NewGraph(), different = NewGraph();
    AddScaleAdd(graph, {AddFill(graph, {}, a, 1)}, a, 2, 0);
    AddScaleAdd(same, {AddFill(same, {}, b, 5)}, b, 2, 1);
    AddFill(different, {AddFill(different, {}, b, 5)}, b, 2);
    const CUgraphExec exec = Instantiate(graph);
    CUgraphExecUpdateResultInfo info{};
    ASSERT_CUDA(cuGraphExecUpdate(exec, same, &info));
    EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
    ASSERT_CUDA(cuGraphLaunch(exec, stream));
    EXPECT_EQ(Read(b), All(11));
    EXPECT_EQ(cuGraphExecUpdate(exec, different, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
    EXPECT_NE(info.errorNode, nullptr);
    AddFill(different, {}, a, 1);
    EXPECT_EQ(cuGraphExecUpdate(exec, different, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  });
}

// "If the executable graph is in-flight, it will not be terminated, but rather freed asynchronously on completion."
TEST(Graph, ADestroyedGraphRunsToItsEnd) {
  Simulate({}, [] {
    UseDevice();
    const CUstream stream = MakeStream();
    const CUdeviceptr a = Allocate(kBytes);
    const CUgraph graph = NewGraph();
    AddFill(graph, {}, a, 12);
    const CUgraphExec exec = Instantiate(graph);
    ASSERT_CUDA(cuGraphLaunch(exec, stream));
    EXPECT_CUDA(cuGraphExecDestroy(exec));
    EXPECT_EQ(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(Read(a), All(12));
  });
}

// A launch is in stream order: legacy stream and blocking stream interlock as for any work.
TEST(Graph, LaunchesAreInStreamOrder) {
  InAllOrders([] {
    UseDevice();
    const CUstream blocking = MakeStream(CU_STREAM_DEFAULT);
    const CUdeviceptr a = Allocate(kBytes);
    const CUgraph graph = NewGraph();
    AddScaleAdd(graph, {AddScaleAdd(graph, {}, a, 2, 1)}, a, 3, 0);
    const CUgraphExec exec = Instantiate(graph);
    ASSERT_CUDA(cuMemsetD32Async(a, 5, kWords, CU_STREAM_LEGACY));
    ASSERT_CUDA(cuGraphLaunch(exec, blocking));
    EXPECT_CUDA(Launch(CU_STREAM_LEGACY, "simcuda_scale_add", a, kWords, 10u, 0u));
    EXPECT_EQ(Read(a), All(330));
  });
}

TEST(Graph, ACapturedLaunchBecomesAChildGraph) {
  InAllOrders([] {
    UseDevice();
    const CUstream stream = MakeStream();
    const CUdeviceptr a = Allocate(kBytes);
    const CUgraph inner = NewGraph();
    AddFill(inner, {}, a, 4);
    const CUgraphExec inner_exec = Instantiate(inner);
    ASSERT_CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ASSERT_CUDA(cuGraphLaunch(inner_exec, stream));
    EXPECT_CUDA(Launch(stream, "simcuda_scale_add", a, kWords, 2u, 0u));
    CUgraph graph = nullptr;
    ASSERT_CUDA(cuStreamEndCapture(stream, &graph));
    CUgraphNode nodes[2];
    size_t count = 2;
    EXPECT_CUDA(cuGraphGetNodes(graph, nodes, &count));
    CUgraphNodeType type;
    EXPECT_CUDA(cuGraphNodeGetType(nodes[0], &type));
    EXPECT_EQ(type, CU_GRAPH_NODE_TYPE_GRAPH);
    EXPECT_CUDA(cuGraphExecDestroy(inner_exec));
    ASSERT_CUDA(cuGraphLaunch(Instantiate(graph), stream));
    EXPECT_EQ(Read(a), All(8));
  });
}

// cuStreamBeginCaptureToGraph: new nodes in a graph that exists, behind the given ones.
TEST(Graph, ACaptureContinuesAGraph) {
  InAllOrders([] {
    UseDevice();
    const CUstream stream = MakeStream();
    const CUdeviceptr a = Allocate(kBytes);
    const CUgraph graph = NewGraph();
    const CUgraphNode fill = AddFill(graph, {}, a, 4);
    ASSERT_CUDA(cuStreamBeginCaptureToGraph(stream, graph, &fill, nullptr, 1, CU_STREAM_CAPTURE_MODE_RELAXED));
    CUgraphExec exec = nullptr;
    EXPECT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CUDA(Launch(stream, "simcuda_scale_add", a, kWords, 5u, 0u));
    CUgraph same = nullptr;
    ASSERT_CUDA(cuStreamEndCapture(stream, &same));
    EXPECT_EQ(same, graph);
    ASSERT_CUDA(cuGraphLaunch(Instantiate(graph), stream));
    EXPECT_EQ(Read(a), All(20));
  });
}

// "Each ... graph ... retains"; the destructor runs once the last graph, executable graph and launch are gone.
TEST(Graph, UserObjectsLiveAsLongAsTheirGraphs) {
  Simulate({}, [] {
    UseDevice();
    const CUstream stream = MakeStream();
    const CUdeviceptr a = Allocate(kBytes);
    static std::atomic<int> destroyed{0};
    CUuserObject object = nullptr;
    EXPECT_EQ(cuUserObjectCreate(&object, nullptr, [](void*) {}, 1, 0), CUDA_ERROR_INVALID_VALUE);
    ASSERT_CUDA(cuUserObjectCreate(&object, nullptr, [](void*) { ++destroyed; }, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    const CUgraph graph = NewGraph();
    AddFill(graph, {}, a, 4);
    ASSERT_CUDA(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    CUgraph clone = nullptr;
    ASSERT_CUDA(cuGraphClone(&clone, graph));
    const CUgraphExec exec = Instantiate(graph);
    EXPECT_CUDA(cuGraphDestroy(graph));
    EXPECT_CUDA(cuGraphDestroy(clone));
    ASSERT_CUDA(cuGraphLaunch(exec, stream));
    EXPECT_CUDA(cuGraphExecDestroy(exec));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(destroyed, 0);  // the launch has not run
    EXPECT_CUDA(cuStreamSynchronize(stream));
    for (int i = 0; i < 500 && destroyed == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(destroyed, 1);
  });
}

// "If an executable graph ... is updated with cudaGraphExecUpdate ... the references in the new source graph are cloned
// and replace the references in the target graph. ... If previous launches are not synchronized, any references which
// would be released are held until the launches have finished executing."
TEST(Graph, UpdatesReplaceUserObjects) {
  Simulate({}, [] {
    UseDevice();
    const CUstream stream = MakeStream();
    const CUdeviceptr a = Allocate(kBytes);
    static std::atomic<int> destroyed[2];
    CUgraph graphs[2];
    for (int i = 0; i < 2; ++i) {
      CUuserObject object = nullptr;
      graphs[i] = NewGraph();
      AddFill(graphs[i], {}, a, 4);
      ASSERT_CUDA(cuUserObjectCreate(
          &object, &destroyed[i], [](void* count) { ++*static_cast<std::atomic<int>*>(count); }, 1,
          CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
      ASSERT_CUDA(cuGraphRetainUserObject(graphs[i], object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    }
    const CUgraphExec exec = Instantiate(graphs[0]);
    ASSERT_CUDA(cuGraphLaunch(exec, stream));
    CUgraphExecUpdateResultInfo info{};
    ASSERT_CUDA(cuGraphExecUpdate(exec, graphs[1], &info));
    for (const CUgraph graph : graphs) EXPECT_CUDA(cuGraphDestroy(graph));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(destroyed[0], 0);  // the launch has not run
    EXPECT_CUDA(cuStreamSynchronize(stream));
    for (int i = 0; i < 500 && destroyed[0] == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(destroyed[0], 1);
    EXPECT_EQ(destroyed[1], 0);
    EXPECT_CUDA(cuGraphExecDestroy(exec));
    for (int i = 0; i < 500 && destroyed[1] == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(destroyed[1], 1);
  });
}

// cuGraphAddNode takes every kind in one structure.
TEST(Graph, GenericNodesAreTheSame) {
  Simulate({}, [] {
    UseDevice();
    const CUstream stream = MakeStream();
    const CUdeviceptr a = Allocate(kBytes);
    const CUgraph graph = NewGraph();
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_MEMSET;
    params.memset.dst = a;
    params.memset.elementSize = 4;
    params.memset.width = kWords;
    params.memset.height = 1;
    params.memset.value = 77;
    CUgraphNode node = nullptr;
    ASSERT_CUDA(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &params));
    const CUgraphExec exec = Instantiate(graph);
    params.memset.value = 78;
    ASSERT_CUDA(cuGraphExecNodeSetParams(exec, node, &params));
    ASSERT_CUDA(cuGraphLaunch(exec, stream));
    EXPECT_EQ(Read(a), All(78));
    params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    EXPECT_EQ(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &params), CUDA_ERROR_NOT_SUPPORTED);
  });
}

}  // namespace
}  // namespace cuheap::testing
