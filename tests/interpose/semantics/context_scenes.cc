// Primary and explicit contexts, and several devices. Source: CUDA Driver API, Context Management; Primary Context
// Management; Peer Context Memory Access.
#include <algorithm>
#include <thread>
#include <vector>

#include "tests/interpose/semantics/scene.h"

namespace semantics {
namespace {

CUcontext Create(int device = 0) {
  CUcontext context = nullptr;
  Must("create", cuCtxCreate(&context, nullptr, 0, device));
  return context;
}

void ShowOwner(const char* what, CUdeviceptr block, const std::vector<CUcontext>& contexts) {
  CUcontext owner = nullptr;
  const CUresult result = cuPointerGetAttribute(static_cast<void*>(&owner), CU_POINTER_ATTRIBUTE_CONTEXT, block);
  const auto found = std::find(contexts.begin(), contexts.end(), owner);
  Print("%s: %d owner %d", what, result, found == contexts.end() ? -1 : static_cast<int>(found - contexts.begin()));
}

void PushAndPop() {
  Must("cuInit", cuInit(0));
  CUcontext first = Create();
  const CUdeviceptr in_first = Allocate(3000);
  CUcontext second = Create();  // pushed
  const CUdeviceptr in_second = Allocate(3000);
  const CUdeviceptr large_in_second = Allocate(3 * kMiB);
  ShowOwner("first", in_first, {first, second});
  ShowOwner("second", in_second, {first, second});
  ShowOwner("second", large_in_second, {first, second});
  // Blocks are freed whatever context is current.
  Say("free of the first's", cuMemFree(in_first));
  Say("again", cuMemFree(in_first));
  CUcontext popped = nullptr;
  Say("pop", cuCtxPopCurrent(&popped));
  Print("the second %d", popped == second);
  const CUdeviceptr again = Allocate(3000);
  ShowOwner("current", again, {first, second});
  Say("free of the second's", cuMemFree(in_second));
  Say("push", cuCtxPushCurrent(second));
  Say("free of the first's", cuMemFree(again));
  Say("destroy", cuCtxDestroy(second));
  Say("free of destroyed", cuMemFree(large_in_second));
  Say("current", cuCtxGetCurrent(&popped));
  Print("the first %d", popped == first);
  const CUdeviceptr last = Allocate(3000);
  Fill(last, 5, 3000);
  Print("word %u", ReadWord(last));
  Say("destroy", cuCtxDestroy(first));
  Say("free without a context", cuMemFree(last));
}
const Scene kPushAndPop("push-and-pop", "", PushAndPop);

// Contexts come and go with live and idle blocks of all kinds in them.
void DestroyedWithBlocks() {
  CUcontext primary = StartDevice();
  std::size_t free_at_first = 0;
  std::size_t total = 0;
  Must("info", cuMemGetInfo(&free_at_first, &total));
  for (int round = 0; round < 5; ++round) {
    CUcontext context = Create();
    std::vector<CUdeviceptr> blocks;
    blocks.reserve(100);
    for (std::size_t i = 0; i < 100; ++i) blocks.push_back(Allocate(i % 9 == 0 ? (i + 9) * kMiB / 8 : 200 * (i + 1)));
    for (std::size_t i = 0; i < blocks.size(); i += 3) Must("free", cuMemFree(blocks[i]));
    if (round % 2 == 0) Say("wait", cuCtxSynchronize());
    Say("destroy", cuCtxDestroy(context));
    Must("primary", cuCtxSetCurrent(primary));
    std::size_t free_now = 0;
    Say("info", cuMemGetInfo(&free_now, &total));
    Print("all back %d", free_now == free_at_first);
    Say("free", cuMemFree(blocks[1]));
    CUdeviceptr base = 0;
    Say("range", cuMemGetAddressRange(&base, &total, blocks[1]));
  }
}
const Scene kDestroyedWithBlocks("destroyed-with-blocks", "", DestroyedWithBlocks);

void RetainAndRelease() {
  CUcontext context = StartDevice();
  CUcontext again = nullptr;
  Say("retain", cuDevicePrimaryCtxRetain(&again, 0));
  Print("same %d", again == context);
  const CUdeviceptr block = Allocate(3000);
  Fill(block, 5, 3000);
  Say("release", cuDevicePrimaryCtxRelease(0));
  Print("word %u", ReadWord(block));
  Say("free", cuMemFree(block));
  const CUdeviceptr kept = Allocate(3000);
  Say("release", cuDevicePrimaryCtxRelease(0));
  Say("free", cuMemFree(kept));
  Say("release", cuDevicePrimaryCtxRelease(0));
  StartDevice();
  unsigned flags = 0;
  int active = 0;
  Say("state", cuDevicePrimaryCtxGetState(0, &flags, &active));
  Print("active %d", active);
  const CUdeviceptr fresh = Allocate(3000);
  Say("free", cuMemFree(fresh));
  Say("free of before", cuMemFree(kept));
}
const Scene kRetainAndRelease("retain-and-release", "", RetainAndRelease);

// A context that threads pass on, current in one at a time, and one that is current in several.
void Floating() {
  Must("cuInit", cuInit(0));
  CUcontext context = Create();
  CUcontext popped = nullptr;
  Say("pop", cuCtxPopCurrent(&popped));
  std::vector<CUdeviceptr> blocks;
  for (int t = 0; t < 4; ++t) {
    std::thread worker([&] {
      CUdeviceptr none = 0;
      Say("without", cuMemAlloc(&none, 64));
      Say("push", cuCtxPushCurrent(context));
      blocks.push_back(Allocate(3000));
      if (blocks.size() > 1) Say("free the last thread's", cuMemFree(blocks[blocks.size() - 2]));
      Say("pop", cuCtxPopCurrent(&popped));
      Say("free without", cuMemFree(blocks.back()));
    });
    worker.join();
  }
  std::vector<std::thread> together;
  int failures[4] = {};
  for (int& failed : failures) {
    together.emplace_back([&failed, context] {
      cuCtxSetCurrent(context);
      for (int i = 0; i < 200; ++i) {
        CUdeviceptr block = 0;
        if (cuMemAlloc(&block, i % 5 == 0 ? 3 * kMiB : 700) != CUDA_SUCCESS) ++failed;
        if (cuMemFree(block) != CUDA_SUCCESS) ++failed;
      }
    });
  }
  for (std::thread& thread : together) thread.join();
  Print("failures %d", failures[0] + failures[1] + failures[2] + failures[3]);
  Say("push", cuCtxPushCurrent(context));
  Say("free", cuMemFree(blocks.back()));
  Say("destroy", cuCtxDestroy(context));
}
const Scene kFloating("floating", "", Floating);

// Work of one context on another's memory, on one device: freed meanwhile, and not reused under it.
void AcrossContexts() {
  Must("cuInit", cuInit(0));
  CUcontext first = Create();
  const CUdeviceptr from = Allocate(4096);
  CUcontext second = Create();
  const CUdeviceptr to = Allocate(4096);
  CUstream stream = NewStream();
  Fill(from, 0x11, 4096);
  Say("copy", cuMemcpyDtoDAsync(to, from, 4096, stream));  // in the second, from the first's memory
  Must("first", cuCtxSetCurrent(first));
  Say("wait", cuCtxSynchronize());
  Must("second", cuCtxSetCurrent(second));
  Say("wait", cuCtxSynchronize());
  Must("first", cuCtxSetCurrent(first));
  Say("free", cuMemFree(from));
  const CUdeviceptr next = Allocate(4096);
  Fill(next, 0x22, 4096);
  Say("wait", cuCtxSynchronize());
  Print("copied %x", ReadWord(to));
}
const Scene kAcrossContexts("across-contexts", "", AcrossContexts);

}  // namespace
}  // namespace semantics
