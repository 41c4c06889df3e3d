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
  const CUresult result = cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, block);
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
const Scene push_and_pop("push-and-pop", "", PushAndPop);

// Contexts come and go with live and idle blocks of all kinds in them.
void DestroyedWithBlocks() {
  CUcontext primary = StartDevice();
  std::size_t free_at_first = 0;
  std::size_t total = 0;
  Must("info", cuMemGetInfo(&free_at_first, &total));
  for (int round = 0; round < 5; ++round) {
    CUcontext context = Create();
    std::vector<CUdeviceptr> blocks;
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
const Scene destroyed_with_blocks("destroyed-with-blocks", "", DestroyedWithBlocks);

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
const Scene retain_and_release("retain-and-release", "", RetainAndRelease);

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
const Scene floating("floating", "", Floating);

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
const Scene across_contexts("across-contexts", "", AcrossContexts);

// ---- several devices ----

void Devices() {
  if (!HasDevices(2)) return;
  int count = 0;
  Must("count", cuDeviceGetCount(&count));
  count = std::min(count, 4);
  std::vector<CUcontext> contexts;
  std::vector<std::size_t> free_at_first;
  for (int i = 0; i < count; ++i) {
    contexts.push_back(StartDevice(i));
    std::size_t total = 0;
    Must("info", cuMemGetInfo(&free_at_first.emplace_back(), &total));
  }
  for (int round = 0; round < 3; ++round) {
    std::vector<CUdeviceptr> blocks;
    for (int i = 0; i < 4 * count; ++i) {
      Must("current", cuCtxSetCurrent(contexts[static_cast<std::size_t>(i % count)]));
      blocks.push_back(Allocate(i % 3 == 0 ? 4 * kMiB : 5000));
      Fill(blocks.back(), static_cast<unsigned>(100 * round + i), 5000);
      Must("wait", cuCtxSynchronize());  // other contexts read it
    }
    // Each is read and freed while another device is current.
    for (int i = 0; i < 4 * count; ++i) {
      const CUdeviceptr block = blocks[static_cast<std::size_t>(i)];
      Must("current", cuCtxSetCurrent(contexts[static_cast<std::size_t>((i + 1) % count)]));
      int ordinal = -1;
      Say("ordinal", cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, block));
      Print("on %d, word %u", ordinal == i % count, ReadWord(block));
      Say("free", cuMemFree(block));
      Say("again", cuMemFree(block));
    }
    for (int i = 0; i < count; ++i) {
      Must("current", cuCtxSetCurrent(contexts[static_cast<std::size_t>(i)]));
      Say("wait", cuCtxSynchronize());
      std::size_t free_now = 0;
      std::size_t total = 0;
      Say("info", cuMemGetInfo(&free_now, &total));
      Print("but for a page all back %d", free_now + 2 * kMiB >= free_at_first[static_cast<std::size_t>(i)]);
    }
  }
}
const Scene devices("devices", "SIMCUDA_DEVICES=3", Devices);

// What one device has idle is of no use to another, and in nobody's way.
void DevicesUnderPressure() {
  if (!HasDevices(2)) return;
  CUcontext contexts[2] = {StartDevice(0), StartDevice(1)};
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  Must("info", cuMemGetInfo(&free_bytes, &total));
  for (int round = 0; round < 4; ++round) {
    Must("current", cuCtxSetCurrent(contexts[round % 2]));
    CUdeviceptr most = 0;
    Say("most", cuMemAlloc(&most, free_bytes / 4 * 3));
    CUdeviceptr more = 0;
    Say("too much", cuMemAlloc(&more, free_bytes / 2));
    Must("current", cuCtxSetCurrent(contexts[1 - round % 2]));
    Say("free", cuMemFree(most));
  }
}
const Scene devices_under_pressure("devices-under-pressure", "SIMCUDA_DEVICES=2 SIMCUDA_MEMORY=128MiB",
                                   DevicesUnderPressure);

// Access of a peer is allowed after the blocks were made, and holds for blocks made later, too.
void PeersEnabledLater() {
  if (!HasDevices(2)) return;
  int possible = 0;
  Must("possible", cuDeviceCanAccessPeer(&possible, 0, 1));
  Print("possible %d", possible);
  if (possible == 0) return;
  CUcontext second = StartDevice(1);
  const CUdeviceptr small = Allocate(4096);
  const CUdeviceptr large = Allocate(4 * kMiB);
  Must("free", cuMemFree(Allocate(4096)));
  Must("wait", cuCtxSynchronize());
  Fill(small, 0x51, 4096);
  Fill(large, 0x52, 4096);
  CUcontext first = StartDevice(0);
  const Kernels kernels;
  const CUdeviceptr here = Allocate(4096);
  Say("enable", cuCtxEnablePeerAccess(second, 0));
  Say("enable again", cuCtxEnablePeerAccess(second, 0));
  Say("copy by a kernel", kernels.Copy(nullptr, here, small, 64));
  Say("wait", cuCtxSynchronize());
  Print("word %x", ReadWord(here));
  Say("copy by a kernel", kernels.Copy(nullptr, here, large, 64));
  Say("wait", cuCtxSynchronize());
  Print("word %x", ReadWord(here));
  Must("second", cuCtxSetCurrent(second));
  const CUdeviceptr later = Allocate(4096);  // from the pool
  Fill(later, 0x53, 4096);
  Say("wait", cuCtxSynchronize());
  Must("first", cuCtxSetCurrent(first));
  Say("copy by a kernel", kernels.Copy(nullptr, here, later, 64));
  Say("wait", cuCtxSynchronize());
  Print("word %x", ReadWord(here));
  Say("copy between", cuMemcpyPeer(here, first, small, second, 64));
  Print("word %x", ReadWord(here));
  Say("disable", cuCtxDisablePeerAccess(second));
  Say("free", cuMemFree(small));
  Say("free", cuMemFree(large));
  Say("free", cuMemFree(later));
}
const Scene peers_enabled_later("peers-enabled-later", "SIMCUDA_DEVICES=2", PeersEnabledLater);

}  // namespace
}  // namespace semantics
