// Several devices: blocks of one used and freed while another is current, and access of peers.
// Source: CUDA Driver API, Peer Context Memory Access; Unified Addressing.
#include <algorithm>
#include <vector>

#include "tests/interpose/semantics/scene.h"

namespace semantics {
namespace {

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
const Scene kDevices("devices", "SIMCUDA_DEVICES=3", Devices);

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
const Scene kDevicesUnderPressure("devices-under-pressure", "SIMCUDA_DEVICES=2 SIMCUDA_MEMORY=128MiB",
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
const Scene kPeersEnabledLater("peers-enabled-later", "SIMCUDA_DEVICES=2", PeersEnabledLater);

}  // namespace
}  // namespace semantics
