// Managed memory: the host reads and writes it, beside a pool that reuses device memory; attaching, prefetching,
// advice. Source: CUDA Driver API, cuMemAllocManaged, cuStreamAttachMemAsync, cuMemPrefetchAsync, cuMemAdvise;
// Programming Guide, "Unified Memory" (after a synchronisation the host sees what the device wrote).
#include <cstring>
#include <vector>

#include "tests/interpose/semantics/scene.h"

namespace semantics {
namespace {

unsigned* Managed(std::size_t bytes, unsigned flags = CU_MEM_ATTACH_GLOBAL) {
  CUdeviceptr address = 0;
  Must("managed", cuMemAllocManaged(&address, bytes, flags));
  return reinterpret_cast<unsigned*>(address);
}
CUdeviceptr Device(const void* host) { return reinterpret_cast<CUdeviceptr>(host); }

void HostAndDevice() {
  StartDevice();
  const Kernels kernels;
  CUstream stream = NewStream();
  for (const std::size_t words : {1ul, 1000ul, 300'000ul}) {
    unsigned* memory = Managed(words * 4);
    for (std::size_t i = 0; i < words; ++i) memory[i] = static_cast<unsigned>(i);
    const CUdeviceptr block = Allocate(words * 4);
    Say("to a block", cuMemcpyDtoDAsync(block, Device(memory), words * 4, stream));
    Say("scale", kernels.ScaleAdd(stream, block, words, 3, 1));
    Say("back", cuMemcpyDtoDAsync(Device(memory), block, words * 4, stream));
    Say("free the block", cuMemFree(block));
    Say("wait", cuStreamSynchronize(stream));
    Print("first %u last %u", memory[0], memory[words - 1]);
    Say("kernel on it", kernels.Fill(stream, Device(memory), words, 99));
    Say("wait", cuStreamSynchronize(stream));
    Print("first %u last %u", memory[0], memory[words - 1]);
    Say("set", cuMemsetD32(Device(memory), 5, words));
    Print("first %u last %u", memory[0], memory[words - 1]);
    Say("free", cuMemFree(Device(memory)));
    Say("free again", cuMemFree(Device(memory)));
  }
}
const Scene kHostAndDevice("host-and-device", "", HostAndDevice);

// What the device wrote to a block of the pool is copied to managed memory, and read by the host right after the free
// of the block, which is a barrier.
void ReadAfterFree() {
  StartDevice();
  CUstream stream = NewStream();
  unsigned* memory = Managed(4096 * 4);
  for (unsigned round = 0; round < 8; ++round) {
    const CUdeviceptr block = Allocate(4096 * 4);
    Must("fill", cuMemsetD32Async(block, 1000 + round, 4096, stream));
    Must("copy", cuMemcpyDtoDAsync(Device(memory), block, 4096 * 4, stream));
    Say("free", cuMemFree(block));
    Say("wait", cuStreamSynchronize(stream));
    Print("words %u %u", memory[0], memory[4095]);
  }
  Say("free", cuMemFree(Device(memory)));
}
const Scene kReadAfterFree("read-after-free", "", ReadAfterFree);

void Attach() {
  StartDevice();
  CUstream stream = NewStream();
  unsigned* memory = Managed(4096, CU_MEM_ATTACH_HOST);
  memory[0] = 7;
  Say("attach to a stream", cuStreamAttachMemAsync(stream, Device(memory), 0, CU_MEM_ATTACH_SINGLE));
  Say("wait", cuStreamSynchronize(stream));
  Say("set", cuMemsetD32Async(Device(memory), 8, 1024, stream));
  Say("wait", cuStreamSynchronize(stream));
  Print("word %u", memory[0]);
  Say("attach to the host", cuStreamAttachMemAsync(stream, Device(memory), 0, CU_MEM_ATTACH_HOST));
  Say("attach to all", cuStreamAttachMemAsync(stream, Device(memory), 0, CU_MEM_ATTACH_GLOBAL));
  Say("wait", cuStreamSynchronize(stream));
  Say("to the null stream", cuStreamAttachMemAsync(nullptr, Device(memory), 0, CU_MEM_ATTACH_SINGLE));
  Say("a part", cuStreamAttachMemAsync(stream, Device(memory), 1024, CU_MEM_ATTACH_GLOBAL));
  Say("inside", cuStreamAttachMemAsync(stream, Device(memory) + 64, 0, CU_MEM_ATTACH_GLOBAL));
  const CUdeviceptr block = Allocate(4096);
  Say("attach a block", cuStreamAttachMemAsync(stream, block, 0, CU_MEM_ATTACH_GLOBAL));
  CUdeviceptr none = 0;
  Say("no flags", cuMemAllocManaged(&none, 4096, 0));
  Say("no bytes", cuMemAllocManaged(&none, 0, CU_MEM_ATTACH_GLOBAL));
  Say("free", cuMemFree(block));
  Say("free", cuMemFree(Device(memory)));
}
const Scene kAttach("attach", "", Attach);

void PrefetchAndAdvise() {
  StartDevice();
  CUstream stream = NewStream();
  unsigned* memory = Managed(4 * kMiB);
  const CUdeviceptr block = Allocate(4 * kMiB);
  memory[5] = 55;
  CUmemLocation device = {};
  device.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemLocation host = {};
  host.type = CU_MEM_LOCATION_TYPE_HOST;
  Say("prefetch", cuMemPrefetchAsync(Device(memory), 4 * kMiB, device, 0, stream));
  Say("back", cuMemPrefetchAsync(Device(memory), 4 * kMiB, host, 0, stream));
  Say("wait", cuStreamSynchronize(stream));
  Print("word %u", memory[5]);
  Say("advise", cuMemAdvise(Device(memory), 4 * kMiB, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
  Say("advise", cuMemAdvise(Device(memory), 4 * kMiB, CU_MEM_ADVISE_UNSET_READ_MOSTLY, device));
  CUmemLocation nowhere = {};
  Say("advise nowhere", cuMemAdvise(Device(memory), 4 * kMiB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, nowhere));
  device.id = 4711;
  Say("no such device", cuMemAdvise(Device(memory), 4 * kMiB, CU_MEM_ADVISE_SET_ACCESSED_BY, device));
  Say("no such device", cuMemPrefetchAsync(Device(memory), 4 * kMiB, device, 0, stream));
  device.id = 0;
  // A block of the pool is no managed memory, whoever made it.
  Say("prefetch a block", cuMemPrefetchAsync(block, 4 * kMiB, device, 0, stream));
  Say("advise a block", cuMemAdvise(block, 4 * kMiB, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
  Say("beyond it", cuMemPrefetchAsync(Device(memory), 64 * kMiB, device, 0, stream));
  Say("nothing", cuMemPrefetchAsync(Device(memory), 0, device, 0, stream));
  Say("free", cuMemFree(block));
  Say("free", cuMemFree(Device(memory)));
}
const Scene kPrefetchAndAdvise("prefetch-and-advise", "", PrefetchAndAdvise);

void Batches() {
  StartDevice();
  CUstream stream = NewStream();
  unsigned* first = Managed(kMiB);
  unsigned* second = Managed(kMiB);
  const CUdeviceptr block = Allocate(kMiB);
  first[0] = 11;
  second[0] = 22;
  CUdeviceptr pointers[] = {Device(first), Device(second)};
  std::size_t sizes[] = {kMiB, kMiB};
  CUmemLocation place = {};
  place.type = CU_MEM_LOCATION_TYPE_DEVICE;
  std::size_t index = 0;
  Say("prefetch", cuMemPrefetchBatchAsync(pointers, sizes, 2, &place, &index, 1, 0, stream));
  Say("wait", cuStreamSynchronize(stream));
  Print("words %u %u", first[0], second[0]);
  Say("in the legacy stream", cuMemPrefetchBatchAsync(pointers, sizes, 2, &place, &index, 1, 0, nullptr));
  Say("discard", cuMemDiscardBatchAsync(pointers, sizes, 1, 0, stream));
  Say("set", cuMemsetD32Async(Device(first), 33, kMiB / 4, stream));
  Say("wait", cuStreamSynchronize(stream));
  Print("words %u %u", first[0], second[0]);
  pointers[1] = block;
  Say("with a block", cuMemPrefetchBatchAsync(pointers, sizes, 2, &place, &index, 1, 0, stream));
  Say("discard a block", cuMemDiscardBatchAsync(&pointers[1], sizes, 1, 0, stream));
  Say("wait", cuStreamSynchronize(stream));
  for (const CUdeviceptr each : {Device(first), Device(second), block}) Say("free", cuMemFree(each));
}
const Scene kBatches("batches", "", Batches);

}  // namespace
}  // namespace semantics
