// Programs for leak_cases_test.py: published accounts of memory that grew, or did not, each as the CUDA calls that its
// author's program made. The first argument names the case.
#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/cases/math_library.h"

namespace {

constexpr std::size_t kKiB = 1024, kMiB = kKiB * 1024, kGiB = kMiB * 1024;

void Check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(result));
  std::exit(3);
}

void EndOfStep() { Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }

// ---- A running sum of losses that were not detached: every step's activations stay. ----

void* Weights() {
  void* block = nullptr;
  Check(cudaMalloc(&block, 256 * kMiB), "weights");
  return block;
}

cudaError_t Activations(void** block) { return cudaMalloc(block, 64 * kMiB); }

cudaError_t Loss(void** block) { return cudaMalloc(block, 4 * kKiB); }

void RunningSum() {
  for (int i = 0; i < 3; ++i) Weights();
  for (int step = 1;; ++step) {
    void* block = nullptr;
    const bool first = Activations(&block) != cudaSuccess;
    if (first || Loss(&block) != cudaSuccess) {
      std::printf("refused in step %d: %s\n", step, first ? "Activations" : "Loss");
      return;
    }
    EndOfStep();
  }
}

void RunningSumOfNumbers() {
  for (int i = 0; i < 3; ++i) Weights();
  for (int step = 1; step <= 1000; ++step) {
    void *activations = nullptr, *loss = nullptr;
    Check(Activations(&activations), "activations");
    Check(Loss(&loss), "loss");
    EndOfStep();
    Check(cudaFree(loss), "loss");
    Check(cudaFree(activations), "activations");
  }
}

// ---- A check that returns early, past the frees at the bottom. ----

#define RETURN_ON_ERROR(call)                                                 \
  do {                                                                        \
    if (const cudaError_t error = (call); error != cudaSuccess) return error; \
  } while (false)

cudaError_t Process(const char* input, bool good) {
  const cudaMemcpyKind kind = good ? cudaMemcpyHostToDevice : static_cast<cudaMemcpyKind>(77);
  void *points = nullptr, *scalars = nullptr, *results = nullptr, *flags = nullptr, *keys = nullptr, *states = nullptr;
  RETURN_ON_ERROR(cudaMalloc(&points, 32000));
  RETURN_ON_ERROR(cudaMalloc(&scalars, 33000));
  RETURN_ON_ERROR(cudaMalloc(&results, 96000));
  RETURN_ON_ERROR(cudaMalloc(&flags, 1000));
  RETURN_ON_ERROR(cudaMalloc(&keys, 64000));
  RETURN_ON_ERROR(cudaMalloc(&states, 1000));
  RETURN_ON_ERROR(cudaMemcpy(points, input, 32000, kind));
  RETURN_ON_ERROR(cudaMemset(results, 0, 96000));
  RETURN_ON_ERROR(cudaDeviceSynchronize());
  for (void* block : {points, scalars, results, flags, keys, states}) RETURN_ON_ERROR(cudaFree(block));
  return cudaSuccess;
}

void EarlyReturn() {
  const std::vector<char> input(32000);
  int failed = 0;
  for (int call = 1; call <= 100; ++call) {
    if (Process(input.data(), call % 10 != 0) != cudaSuccess) ++failed;
    EndOfStep();
  }
  std::printf("%d calls failed\n", failed);
}

// ---- A model of 40 blocks, 77 MiB, that a cache keeps. ----

constexpr std::size_t kModelBlocks = 40, kModelBytes = 77 * kMiB;
using Model = std::array<void*, kModelBlocks>;
volatile int loads = 5;  // not known to the compiler, which else makes five places of one loop

Model LoadModel() {
  Model model{};
  for (std::size_t i = 0; i < kModelBlocks; ++i)
    Check(cudaMalloc(&model[i], i == 0 ? kModelBytes - (kModelBlocks - 1) * kMiB : kMiB), "model");
  return model;
}

void Free(const Model& model) {
  for (void* block : model) Check(cudaFree(block), "model");
}

void CacheOfOne() {
  Model cached{};
  for (int load = 1; load <= loads; ++load) {
    const Model model = LoadModel();
    Free(cached);  // what the cache held, once the new one is there; cudaFree of nullptr does nothing
    cached = model;
    EndOfStep();
  }
}

void FreedFirst() {
  Model cached{};
  for (int load = 1; load <= loads; ++load) {
    Free(cached);
    cached = LoadModel();
    EndOfStep();
  }
}

void CacheOfAll() {
  for (int load = 1; load <= loads; ++load) {
    LoadModel();
    EndOfStep();
  }
}

// ---- Timing events that nobody destroys, beside memory that is freed. ----

void EventsOnly() {
  for (int i = 0; i < 10000; ++i) {
    void* block = nullptr;
    Check(cudaMalloc(&block, kMiB), "block");
    std::array<cudaEvent_t, 2> events{};
    for (cudaEvent_t& event : events) {
      Check(cudaEventCreate(&event), "event");
      Check(cudaEventRecord(event, nullptr), "record");
    }
    Check(cudaFree(block), "block");
  }
}

void EventsDestroyed() {
  for (int i = 0; i < 10000; ++i) {
    cudaEvent_t event = nullptr;
    Check(cudaEventCreate(&event), "event");
    Check(cudaEventDestroy(event), "event");
  }
  void* block = nullptr;
  Check(cudaMalloc(&block, kMiB), "block");
  Check(cudaFree(block), "block");
}

// ---- A compiled model whose pool outlives it: 57.0034 MiB each cycle, in blocks of 512 B to 8 MiB. ----

constexpr std::size_t kCycleBytes = 59'772'416;  // 57.0034 MiB

void* GraphPool(std::size_t bytes) {
  void* block = nullptr;
  Check(cudaMalloc(&block, bytes), "graph pool");
  return block;
}

void CompiledModel() {
  for (int cycle = 1; cycle < loads; ++cycle) {
    std::size_t left = kCycleBytes;
    for (std::size_t bytes = 512; bytes <= 8 * kMiB; bytes *= 2) {
      GraphPool(bytes);
      left -= bytes;
    }
    while (left > 8 * kMiB) {
      GraphPool(8 * kMiB);
      left -= 8 * kMiB;
    }
    GraphPool(left);
    EndOfStep();
  }
}

// ---- The workspace of a mathematical library: 8 MiB and 128 KiB, once for each stream. ----

constexpr std::size_t kWorkspaceBytes = 8'519'680;

void* Workspace(cudaStream_t stream) {
  static std::map<cudaStream_t, void*> workspaces;
  void*& block = workspaces[stream];
  if (block == nullptr) Check(cudaMalloc(&block, kWorkspaceBytes), "workspace");
  return block;
}

void Multiply(cudaStream_t stream) {
  void* workspace = Workspace(stream);
  void* output = nullptr;
  Check(cudaMalloc(&output, kMiB), "output");
  Check(cudaMemsetAsync(workspace, 0, 512, stream), "kernel");
  EndOfStep();
  Check(cudaFree(output), "output");
}

void OneWorkspace() {
  for (int call = 0; call <= 1000; ++call) Multiply(nullptr);
}

void WorkspacePerStream() {
  std::array<cudaStream_t, 4> streams{};
  for (cudaStream_t& stream : streams) Check(cudaStreamCreate(&stream), "stream");
  for (int call = 0; call < 1000; ++call) Multiply(streams[static_cast<std::size_t>(call) % streams.size()]);
}

void WorkspacePerCapture() {
  for (int capture = 0; capture < 50; ++capture) {
    cudaStream_t stream = nullptr;
    Check(cudaStreamCreate(&stream), "stream");
    void* workspace = Workspace(stream);
    Check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "capture");
    Check(cudaMemsetAsync(workspace, 0, 512, stream), "kernel");
    cudaGraph_t graph = nullptr;
    Check(cudaStreamEndCapture(stream, &graph), "capture");
    cudaGraphExec_t ready = nullptr;
    Check(cudaGraphInstantiate(&ready, graph, 0), "instantiate");
    Check(cudaGraphLaunch(ready, stream), "launch");
    EndOfStep();
    Check(cudaGraphExecDestroy(ready), "graph");
    Check(cudaGraphDestroy(graph), "graph");
  }
}

void OneHandle() {
  Check(MathLibraryCreate() == nullptr ? cudaErrorMemoryAllocation : cudaSuccess, "handle");
  for (int call = 0; call < 100; ++call) {
    void* output = nullptr;
    Check(cudaMalloc(&output, kMiB), "output");
    EndOfStep();
    Check(cudaFree(output), "output");
  }
}

void HandlePerCall() {
  for (int call = 0; call < 50; ++call) {
    Check(MathLibraryCreate() == nullptr ? cudaErrorMemoryAllocation : cudaSuccess, "handle");
    EndOfStep();
  }
}

// ---- Pinned memory of which a cache asked for twice what it needed. ----

void PinnedPowersOfTwo() {
  for (const std::size_t bytes : {16 * kGiB, 32 * kGiB}) {
    void* block = nullptr;
    Check(cudaHostAlloc(&block, bytes, cudaHostAllocDefault), "pinned");
  }
}

// ---- What piles up and goes with the program's last act. ----

void FreedAtTeardown() {
  std::vector<void*> results;
  for (int step = 0; step < 100; ++step) {
    void* block = nullptr;
    Check(cudaMalloc(&block, 2 * kMiB), "result");
    results.push_back(block);
    EndOfStep();
  }
  for (void* block : results) Check(cudaFree(block), "result");
}

const std::map<std::string, std::function<void()>> kCases = {
    {"running-sum", RunningSum},
    {"running-sum-of-numbers", RunningSumOfNumbers},
    {"early-return", EarlyReturn},
    {"cache-of-one", CacheOfOne},
    {"freed-first", FreedFirst},
    {"cache-of-all", CacheOfAll},
    {"events", EventsOnly},
    {"events-destroyed", EventsDestroyed},
    {"compiled-model", CompiledModel},
    {"one-handle", OneHandle},
    {"handle-per-call", HandlePerCall},
    {"one-workspace", OneWorkspace},
    {"workspace-per-stream", WorkspacePerStream},
    {"workspace-per-capture", WorkspacePerCapture},
    {"pinned", PinnedPowersOfTwo},
    {"teardown", FreedAtTeardown},
};

}  // namespace

int main(int argc, char** argv) {
  const auto found = argc > 1 ? kCases.find(argv[1]) : kCases.end();
  if (found == kCases.end()) {
    for (const auto& [name, run] : kCases) std::fprintf(stderr, "%s\n", name.c_str());
    return 2;
  }
  found->second();
  return 0;
}
