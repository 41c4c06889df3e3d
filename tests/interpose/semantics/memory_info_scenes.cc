// cuMemGetInfo: what a program sizes itself by. Source: CUDA Driver API, Memory Management, cuMemGetInfo.
#include <vector>

#include "tests/interpose/semantics/scene.h"

namespace semantics {
namespace {

struct Info {
  std::size_t free = 0;
  std::size_t total = 0;
};

Info Ask() {
  Info info;
  Must("info", cuMemGetInfo(&info.free, &info.total));
  Expect(info.free <= info.total, "at most the total free");
  return info;
}

// How much more was free before: whole blocks above 2 MiB are charged alike by everybody.
void ShowTaken(const char* what, const Info& before) {
  const Info now = Ask();
  Print("%s: taken %lld MiB, total as before %d", what,
        (static_cast<long long>(before.free) - static_cast<long long>(now.free)) / static_cast<long long>(kMiB),
        now.total == before.total);
}

void LargeBlocks() {
  StartDevice();
  const Info before = Ask();
  std::vector<CUdeviceptr> blocks;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 4; ++i) blocks.push_back(Allocate(16 * kMiB));
    ShowTaken("four of 16 MiB", before);
    for (const CUdeviceptr block : blocks) Say("free", cuMemFree(block));
    ShowTaken("freed", before);
    blocks.clear();
    Say("synchronize", cuCtxSynchronize());
    ShowTaken("after a wait", before);
  }
  for (int i = 0; i < 4; ++i) blocks.push_back(Allocate(16 * kMiB));
  Say("free", cuMemFree(blocks[1]));
  ShowTaken("three left", before);
  Say("double free", cuMemFree(blocks[1]));
  ShowTaken("after a wrong free", before);
}
const Scene kLargeBlocks("large-blocks", "", LargeBlocks);

// Small ones share pages, each allocator in its own way: not less than asked for is taken, and all comes back.
void SmallBlocks() {
  StartDevice();
  const Info before = Ask();
  std::vector<CUdeviceptr> blocks;
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < 2000; ++i) blocks.push_back(Allocate(1 + i * 37 % 9000));
    const Info during = Ask();
    Print("something taken %d", before.free - during.free >= 8 * kMiB);
    for (const CUdeviceptr block : blocks) Must("free", cuMemFree(block));
    blocks.clear();
    Say("synchronize", cuCtxSynchronize());
    Print("but for a page all is back %d", Ask().free + 2 * kMiB >= before.free);
  }
}
const Scene kSmallBlocks("small-blocks", "", SmallBlocks);

// A free is seen at once, as natively, where it was one that waits for the device.
void SmallBlocksAtOnce() {
  StartDevice();
  const Info before = Ask();
  std::vector<CUdeviceptr> blocks;
  blocks.reserve(500);
  for (std::size_t i = 0; i < 500; ++i) blocks.push_back(Allocate(40'000));
  for (const CUdeviceptr block : blocks) Must("free", cuMemFree(block));
  Print("but for a page all is back %d", Ask().free + 2 * kMiB >= before.free);
}
const Scene kSmallBlocksAtOnce("small-blocks-at-once", "", SmallBlocksAtOnce);

void StreamOrdered() {
  StartDevice();
  const Info before = Ask();
  CUstream stream = NewStream();
  for (int round = 0; round < 3; ++round) {
    CUdeviceptr first = 0;
    CUdeviceptr second = 0;
    Say("allocate", cuMemAllocAsync(&first, 16 * kMiB, stream));
    Say("allocate", cuMemAllocAsync(&second, 16 * kMiB, stream));
    ShowTaken("two of 16 MiB", before);
    Say("free", cuMemFreeAsync(first, stream));
    Say("free", cuMemFreeAsync(second, stream));
    Say("synchronize", cuStreamSynchronize(stream));
    ShowTaken("freed", before);
  }
}
const Scene kStreamOrdered("stream-ordered", "", StreamOrdered);

// What is missing is the driver's business; and a query that fails writes nothing.
void MissingOutputs() {
  std::size_t free_bytes = 7;
  std::size_t total = 7;
  Say("before cuInit", cuMemGetInfo(&free_bytes, &total));
  Must("cuInit", cuInit(0));
  Say("no context", cuMemGetInfo(&free_bytes, &total));
  Print("untouched %d", free_bytes == 7 && total == 7);
  StartDevice();
  std::vector<CUdeviceptr> blocks;
  blocks.reserve(8);
  for (int i = 0; i < 8; ++i) blocks.push_back(Allocate(8 * kMiB));
  for (const CUdeviceptr block : blocks) Must("free", cuMemFree(block));
  Say("no free", cuMemGetInfo(nullptr, &total));
  Say("no total", cuMemGetInfo(&free_bytes, nullptr));
  Say("neither", cuMemGetInfo(nullptr, nullptr));
  Say("both", cuMemGetInfo(&free_bytes, &total));
  Print("sane %d", free_bytes <= total);
}
const Scene kMissingOutputs("missing-outputs", "", MissingOutputs);

// A program that takes what is said to be free gets it: what our pools keep counts as free, and is.
void AllOfIt() {
  StartDevice();
  CUstream stream = NewStream();
  for (int round = 0; round < 3; ++round) {
    std::vector<CUdeviceptr> blocks;
    blocks.reserve(320);
    for (int i = 0; i < 20; ++i) blocks.push_back(Allocate(3 * kMiB));
    for (int i = 0; i < 300; ++i) blocks.push_back(Allocate(20'000));
    CUdeviceptr in_stream = 0;
    Must("allocate", cuMemAllocAsync(&in_stream, 10 * kMiB, stream));
    for (const CUdeviceptr block : blocks) Must("free", cuMemFree(block));
    Must("free", cuMemFreeAsync(in_stream, stream));
    Must("synchronize", cuCtxSynchronize());
    const Info info = Ask();
    const std::size_t wanted = info.free - info.free / 50 - 4 * kMiB;  // a real device keeps a little for itself
    CUdeviceptr all = 0;
    Say("nearly all", cuMemAlloc(&all, wanted));
    const Info after = Ask();
    Print("taken %d", info.free - after.free >= wanted);
    Say("free", cuMemFree(all));
  }
}
const Scene kAllOfIt("all-of-it", "SIMCUDA_MEMORY=256MiB", AllOfIt);

}  // namespace
}  // namespace semantics
