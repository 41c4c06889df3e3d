// Scenes of which safety_test.py runs each with a rule of safety on and off (docs/safety.md), where no other has them.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

#include "tests/interpose/semantics/scene.h"

namespace semantics {
namespace {

std::size_t FreeNow() {
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  Must("info", cuMemGetInfo(&free_bytes, &total));
  return free_bytes;
}

// The device is busy with work that ends only when the host goes on (as a collective ends when other ranks come): a
// request that finds no memory may wait for it, but not for ever.
void PendingWork() {
  StartDevice();
  const Kernels kernels;
  CUstream stream = NewStream();
  const std::size_t room = FreeNow();
  std::vector<CUdeviceptr> small;
  small.reserve(room / 2 / kMiB);
  for (std::size_t i = 0; i < room / 2 / kMiB; ++i) small.push_back(Allocate(kMiB));
  const CUdeviceptr large = Allocate(room / 4 / (2 * kMiB) * (2 * kMiB));
  for (std::size_t i = 0; i < small.size(); i += 4) Must("free", cuMemFree(small[i]));
  Must("free", cuMemFree(large));
  Gate gate;
  gate.Close(kernels, stream);
  CUdeviceptr more = 0;
  Say("three eighths", cuMemAlloc(&more, room / 8 * 3));
  gate.Open();
  Say("wait", cuStreamSynchronize(stream));
  Say("free", cuMemFree(more));
}
// Where frees themselves do not wait, which the documentation leaves open.
const Scene kPendingWork("pending-work", "simulated SIMCUDA_MEMORY=64MiB SIMCUDA_FREE_SYNC=0", PendingWork);

// Children that use CUDA after all, forked while other threads are in the middle of something.
void ForkedChildren() {
  CUcontext context = StartDevice();
  const CUdeviceptr small = Allocate(4096);
  const CUdeviceptr large = Allocate(4 * kMiB);
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  threads.reserve(3);
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      cuCtxSetCurrent(context);
      while (!over) {
        CUdeviceptr block = 0;
        cuMemAlloc(&block, 2000);
        cuMemFree(block);
      }
    });
  }
  std::fflush(stdout);
  int refused = 0;
  int killed = 0;
  constexpr int kChildren = 60;
  for (int i = 0; i < kChildren && killed == 0; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(3);
      CUdeviceptr block = 0;
      const bool as_documented =
          cuMemFree(small) == CUDA_ERROR_NOT_INITIALIZED && cuMemFree(large) == CUDA_ERROR_NOT_INITIALIZED &&
          cuMemAlloc(&block, 2000) == CUDA_ERROR_NOT_INITIALIZED && cuInit(0) == CUDA_ERROR_NOT_INITIALIZED;
      _exit(as_documented ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) ++killed;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) ++refused;
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
  Print("refused %d hung %d", refused, killed);
  Say("free", cuMemFree(small));
  Say("free", cuMemFree(large));
}
const Scene kForkedChildren("forked-children", "simulated", ForkedChildren);

// In a global capture cuMemAlloc is an unsafe call, which fails and ends the capture; in a relaxed one it is allowed.
// Source: CUDA Driver API, cuStreamBeginCapture, cuThreadExchangeStreamCaptureMode.
void Capture() {
  StartDevice();
  const Kernels kernels;
  CUstream stream = NewStream();
  const CUdeviceptr block = Allocate(4096);
  for (const std::size_t bytes : {std::size_t{4096}, 4 * kMiB}) Must("free", cuMemFree(Allocate(bytes)));
  Must("wait", cuCtxSynchronize());
  for (const CUstreamCaptureMode mode : {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED}) {
    for (const std::size_t bytes : {std::size_t{4096}, 4 * kMiB}) {
      CUgraph graph = nullptr;
      CUdeviceptr more = 0;
      Say("begin", cuStreamBeginCapture(stream, mode));
      Say("launch", kernels.Fill(stream, block, 16, 5));
      const bool global = mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
      Say(global ? "unsafe allocation" : "allocation", cuMemAlloc(&more, bytes));
      Say("end", cuStreamEndCapture(stream, &graph));
      if (graph != nullptr) Say("destroy", cuGraphDestroy(graph));
      if (more != 0) Say("free", cuMemFree(more));
    }
  }
}
const Scene kCapture("capture", "", Capture);

// Ends with memory in the pool; nobody calls the driver after its own end.
void Exit() {
  StartDevice();
  for (int i = 0; i < 8; ++i) {
    const CUdeviceptr block = Allocate(4 * kMiB);
    Fill(block, 1, 4096);
    Say("free", cuMemFree(block));
  }
  Say("wait", cuCtxSynchronize());
}
const Scene kAtExit("exit", "", Exit);

}  // namespace
}  // namespace semantics
