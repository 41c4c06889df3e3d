// Memory that graphs own, against the CUDA C++ Programming Guide ("Graph Memory Nodes") and the Driver API reference
// (cuGraphAddMemAllocNode, cuGraphAddMemFreeNode, cuGraphLaunch, cuDeviceGetGraphMemAttribute).
#include <cstdint>
#include <functional>
#include <vector>

#include "tests/tools/simcuda/simulated.h"

namespace cuheap::testing {
namespace {

constexpr uint64_t kWords = 1024;
constexpr size_t kBytes = kWords * sizeof(uint32_t);
constexpr uint64_t kPage = uint64_t{2} << 20;

void InAllOrders(const std::function<void()>& body) {
  for (const char* order : {"late", "eager", "random"}) Simulate({{"SIMCUDA_ORDER", order}}, body);
}

uint64_t GraphBytes(CUgraphMem_attribute attribute) {
  uint64_t bytes = 0;
  EXPECT_CUDA(cuDeviceGetGraphMemAttribute(0, attribute, &bytes));
  return bytes;
}

std::vector<uint32_t> Read(CUdeviceptr address) {
  std::vector<uint32_t> bytes(kWords);
  EXPECT_CUDA(cuCtxSynchronize());
  EXPECT_CUDA(cuMemcpyDtoH(bytes.data(), address, kBytes));
  return bytes;
}

// Captures: allocate, fill, copy out, and free if asked.
CUgraph CaptureUse(CUstream stream, CUdeviceptr out, unsigned value, bool free, CUdeviceptr* block) {
  EXPECT_CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_CUDA(cuMemAllocAsync(block, kBytes, stream));
  EXPECT_CUDA(Launch(stream, "simcuda_fill", *block, kWords, value));
  EXPECT_CUDA(cuMemcpyDtoDAsync(out, *block, kBytes, stream));
  if (free) {
    EXPECT_CUDA(cuMemFreeAsync(*block, stream));
  }
  CUgraph graph = nullptr;
  EXPECT_CUDA(cuStreamEndCapture(stream, &graph));
  return graph;
}

// "During stream capture, this function results in the creation of an allocation node."
TEST(GraphMemory, CapturedAllocationsBecomeNodesWithFixedAddresses) {
  InAllOrders([] {
    UseDevice();
    const CUstream stream = MakeStream();
    const CUdeviceptr out = Allocate(kBytes);
    const size_t before = FreeBytes();
    CUdeviceptr block = 0;
    const CUgraph graph = CaptureUse(stream, out, 9, true, &block);
    CUgraphNode nodes[4];
    size_t count = 4;
    ASSERT_CUDA(cuGraphGetNodes(graph, nodes, &count));
    ASSERT_EQ(count, 4u);
    CUDA_MEM_ALLOC_NODE_PARAMS params{};
    ASSERT_CUDA(cuGraphMemAllocNodeGetParams(nodes[0], &params));
    EXPECT_EQ(params.dptr, block);
    EXPECT_EQ(params.bytesize, kBytes);
    CUdeviceptr freed = 0;
    ASSERT_CUDA(cuGraphMemFreeNodeGetParams(nodes[3], &freed));
    EXPECT_EQ(freed, block);
    EXPECT_EQ(FreeBytes(), before);  // no physical memory before a launch
    CUgraphExec exec = nullptr, second = nullptr;
    ASSERT_CUDA(cuGraphInstantiate(&exec, graph, 0));
    EXPECT_EQ(cuGraphInstantiate(&second, graph, 0), CUDA_ERROR_INVALID_VALUE);  // "only one instantiation"
    CUgraph clone = nullptr;
    EXPECT_NE(cuGraphClone(&clone, graph), CUDA_SUCCESS);
    EXPECT_NE(cuGraphDestroyNode(nodes[1]), CUDA_SUCCESS);
    for (int i = 0; i < 3; ++i) ASSERT_CUDA(cuGraphLaunch(exec, stream));
    EXPECT_EQ(Read(out), std::vector<uint32_t>(kWords, 9));
    EXPECT_EQ(GraphBytes(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), kPage);
    EXPECT_EQ(FreeBytes(), before - kPage);
    // "Blocks which are not in use by a graph that is either currently executing or scheduled to execute are freed."
    EXPECT_CUDA(cuDeviceGraphMemTrim(0));
    EXPECT_EQ(GraphBytes(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 0u);
    EXPECT_EQ(FreeBytes(), before);
    EXPECT_EQ(GraphBytes(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH), kPage);
    uint64_t zero = 0;
    EXPECT_CUDA(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH, &zero));
    EXPECT_EQ(GraphBytes(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH), 0u);
    ASSERT_CUDA(cuGraphLaunch(exec, stream));  // and comes again
    EXPECT_EQ(Read(out), std::vector<uint32_t>(kWords, 9));
    EXPECT_CUDA(cuGraphExecDestroy(exec));
    EXPECT_CUDA(cuGraphInstantiate(&second, graph, 0));
  });
}

// "If the allocation is not freed in the same graph, then it can be accessed ... by stream operations ordered after the
// graph's execution but before the allocation is freed"; a second launch before that is INVALID_VALUE.
TEST(GraphMemory, AnAllocationThatOutlivesItsGraphIsFreedOutside) {
  InAllOrders([] {
    UseDevice();
    const CUstream stream = MakeStream();
    const CUdeviceptr out = Allocate(kBytes);
    CUdeviceptr block = 0;
    const CUgraph graph = CaptureUse(stream, out, 9, false, &block);
    CUgraphExec exec = nullptr;
    ASSERT_CUDA(cuGraphInstantiate(&exec, graph, 0));
    EXPECT_EQ(cuMemFreeAsync(block, stream), CUDA_ERROR_INVALID_VALUE);  // not allocated yet
    ASSERT_CUDA(cuGraphLaunch(exec, stream));
    EXPECT_EQ(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CUDA(Launch(stream, "simcuda_scale_add", block, kWords, 2u, 1u));
    EXPECT_EQ(Read(block), std::vector<uint32_t>(kWords, 19));
    EXPECT_CUDA(cuMemFreeAsync(block, stream));
    EXPECT_EQ(cuMemFreeAsync(block, stream), CUDA_ERROR_INVALID_VALUE);
    ASSERT_CUDA(cuGraphLaunch(exec, stream));
    EXPECT_CUDA(cuMemFree(block));
    ASSERT_CUDA(cuGraphLaunch(exec, stream));
    // The program still owns the block of the last launch.
    EXPECT_CUDA(cuGraphExecDestroy(exec));
    EXPECT_CUDA(cuGraphDestroy(graph));
    EXPECT_EQ(Read(block), std::vector<uint32_t>(kWords, 9));
    EXPECT_CUDA(cuMemFree(block));
  });
}

TEST(GraphMemory, AutoFreeFreesWhatTheLaunchBeforeLeft) {
  Simulate({}, [] {
    UseDevice();
    const CUstream stream = MakeStream();
    const CUdeviceptr out = Allocate(kBytes);
    CUdeviceptr block = 0;
    const CUgraph graph = CaptureUse(stream, out, 9, false, &block);
    CUgraphExec exec = nullptr;
    ASSERT_CUDA(cuGraphInstantiate(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
    for (int i = 0; i < 3; ++i) ASSERT_CUDA(cuGraphLaunch(exec, stream));
    EXPECT_EQ(Read(block), std::vector<uint32_t>(kWords, 9));
  });
}

// "Launching a graph with a free node for that allocation."
TEST(GraphMemory, AnotherGraphFrees) {
  Simulate({}, [] {
    UseDevice();
    const CUstream stream = MakeStream();
    const CUdeviceptr out = Allocate(kBytes);
    CUdeviceptr block = 0;
    const CUgraph graph = CaptureUse(stream, out, 9, false, &block);
    CUgraph freeing = nullptr;
    CUgraphNode node = nullptr;
    ASSERT_CUDA(cuGraphCreate(&freeing, 0));
    EXPECT_EQ(cuGraphAddMemFreeNode(&node, freeing, nullptr, 0, out), CUDA_ERROR_INVALID_VALUE);
    ASSERT_CUDA(cuGraphAddMemFreeNode(&node, freeing, nullptr, 0, block));
    EXPECT_EQ(cuGraphAddMemFreeNode(&node, freeing, nullptr, 0, block), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuGraphAddMemFreeNode(&node, graph, nullptr, 0, block), CUDA_ERROR_INVALID_VALUE);
    CUgraphExec exec = nullptr, free_exec = nullptr;
    ASSERT_CUDA(cuGraphInstantiate(&exec, graph, 0));
    ASSERT_CUDA(cuGraphInstantiate(&free_exec, freeing, 0));
    EXPECT_EQ(cuGraphLaunch(free_exec, stream), CUDA_ERROR_INVALID_VALUE);
    for (int i = 0; i < 2; ++i) {
      ASSERT_CUDA(cuGraphLaunch(exec, stream));
      ASSERT_CUDA(cuGraphLaunch(free_exec, stream));
    }
    EXPECT_CUDA(cuStreamSynchronize(stream));
  });
}

// A use after the free node is found out, as a use of memory that is not there.
TEST(GraphMemory, UseAfterTheFreeIsAnIllegalAddress) {
  Simulate({}, [] {
    UseDevice();
    const CUstream stream = MakeStream();
    const CUdeviceptr out = Allocate(kBytes);
    CUdeviceptr block = 0;
    CUgraphExec exec = nullptr;
    ASSERT_CUDA(cuGraphInstantiate(&exec, CaptureUse(stream, out, 9, true, &block), 0));
    ASSERT_CUDA(cuGraphLaunch(exec, stream));
    EXPECT_CUDA(Launch(stream, "simcuda_fill", block, kWords, 1u));
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  });
}

// "Address Reuse within a Graph": an allocation ordered behind the free of another one may get its address.
TEST(GraphMemory, AddressesAreReusedBehindAFree) {
  InAllOrders([] {
    UseDevice();
    const CUstream stream = MakeStream();
    const CUdeviceptr out = Allocate(2 * kBytes);
    CUdeviceptr first = 0, second = 0;
    ASSERT_CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ASSERT_CUDA(cuMemAllocAsync(&first, kBytes, stream));
    EXPECT_CUDA(Launch(stream, "simcuda_fill", first, kWords, 1u));
    ASSERT_CUDA(cuMemcpyDtoDAsync(out, first, kBytes, stream));
    ASSERT_CUDA(cuMemFreeAsync(first, stream));
    ASSERT_CUDA(cuMemAllocAsync(&second, kBytes / 2, stream));
    EXPECT_EQ(second, first);
    EXPECT_CUDA(Launch(stream, "simcuda_fill", second, kWords / 2, 2u));
    ASSERT_CUDA(cuMemcpyDtoDAsync(out + kBytes, second, kBytes / 2, stream));
    ASSERT_CUDA(cuMemFreeAsync(second, stream));
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    ASSERT_CUDA(cuStreamEndCapture(stream, &graph));
    ASSERT_CUDA(cuGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 2; ++i) ASSERT_CUDA(cuGraphLaunch(exec, stream));
    EXPECT_EQ(Read(out), std::vector<uint32_t>(kWords, 1));
    EXPECT_EQ(Read(out + kBytes)[0], 2u);
  });
}

// "must therefore be passed the address of a graph allocation"
TEST(GraphMemory, ACapturedFreeOfOrdinaryMemoryIsRefused) {
  Simulate({}, [] {
    UseDevice();
    const CUstream stream = MakeStream();
    CUdeviceptr pooled = 0;
    ASSERT_CUDA(cuMemAllocAsync(&pooled, kBytes, stream));
    ASSERT_CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_EQ(cuMemFreeAsync(pooled, stream), CUDA_ERROR_INVALID_VALUE);
    CUgraph graph = nullptr;
    EXPECT_CUDA(cuStreamEndCapture(stream, &graph));
    EXPECT_CUDA(cuMemFreeAsync(pooled, stream));
  });
}

}  // namespace
}  // namespace cuheap::testing
