// Errors that a context keeps: after an illegal address every call of the context says so, natively and with us.
// Source: CUDA Driver API, CUresult: "this leaves the process in an inconsistent state and any further CUDA work will
// return the same error".
#include "tests/interpose/semantics/scene.h"

namespace semantics {
namespace {

struct Blocks {
  CUdeviceptr small = 0;
  CUdeviceptr large = 0;
  CUdeviceptr in_stream = 0;
  CUdeviceptr managed = 0;
  void* host = nullptr;
  CUstream stream = nullptr;
};

Blocks MakeBlocks() {
  Blocks made;
  made.stream = NewStream();
  made.small = Allocate(5000);
  made.large = Allocate(4 * kMiB);
  Must("allocate", cuMemAllocAsync(&made.in_stream, 5000, made.stream));
  Must("managed", cuMemAllocManaged(&made.managed, 5000, CU_MEM_ATTACH_GLOBAL));
  Must("pinned", cuMemHostAlloc(&made.host, 5000, 0));
  // Something for the pool to serve.
  Must("free", cuMemFree(Allocate(5000)));
  Must("free", cuMemFree(Allocate(4 * kMiB)));
  Must("synchronize", cuCtxSynchronize());
  return made;
}

void ShowAfter(const Blocks& blocks) {
  CUdeviceptr more = 17;
  Say("allocate", cuMemAlloc(&more, 5000));
  Say("allocate", cuMemAlloc(&more, 4 * kMiB));
  Say("allocate in a stream", cuMemAllocAsync(&more, 5000, blocks.stream));
  Say("allocate managed", cuMemAllocManaged(&more, 5000, CU_MEM_ATTACH_GLOBAL));
  Print("untouched %d", more == 17);
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  Say("info", cuMemGetInfo(&free_bytes, &total));
  CUmemorytype type = {};
  Say("attribute", cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, blocks.small));
  CUdeviceptr base = 0;
  Say("range", cuMemGetAddressRange(&base, &total, blocks.small));
  unsigned word = 0;
  Say("read", cuMemcpyDtoH(&word, blocks.large, sizeof(word)));
  Say("fill", cuMemsetD8(blocks.small, 1, 100));
  Say("fill in a stream", cuMemsetD8Async(blocks.small, 1, 100, blocks.stream));
  Say("free in a stream", cuMemFreeAsync(blocks.in_stream, blocks.stream));
  Say("free", cuMemFree(blocks.small));
  Say("free", cuMemFree(blocks.large));
  Say("free", cuMemFree(blocks.managed));
  Say("free host", cuMemFreeHost(blocks.host));
  Say("wait for a stream", cuStreamSynchronize(blocks.stream));
  Say("wait", cuCtxSynchronize());
  Say("free again", cuMemFree(blocks.small));
}

void ByKernel() {
  StartDevice();
  const Kernels kernels;
  const Blocks blocks = MakeBlocks();
  Say("launch", kernels.Fill(blocks.stream, 0x1000, 16, 1));
  Say("wait", cuCtxSynchronize());
  ShowAfter(blocks);
}
const Scene kByKernel("by-kernel", "", ByKernel);

// A block that is freed, in stream order, before the kernel that reads it.
void ByUseAfterFree() {
  StartDevice();
  const Kernels kernels;
  const Blocks blocks = MakeBlocks();
  Say("launch", kernels.Copy(blocks.stream, 0x1000, blocks.large, 64));
  Say("wait for the stream", cuStreamSynchronize(blocks.stream));
  ShowAfter(blocks);
}
const Scene kByUseAfterFree("by-copy-kernel", "", ByUseAfterFree);

// The first call that hears of it is a free.
void HeardByFree() {
  StartDevice();
  const Kernels kernels;
  const Blocks blocks = MakeBlocks();
  Say("launch", kernels.Fill(blocks.stream, 0x1000, 16, 1));
  Say("free", cuMemFree(blocks.small));
  Say("wait", cuCtxSynchronize());
  Say("free", cuMemFree(blocks.large));
}
const Scene kHeardByFree("heard-by-free", "", HeardByFree);

// A reset makes a new context, which is sound.
void Reset() {
  StartDevice();
  {
    const Kernels kernels;
    const Blocks blocks = MakeBlocks();
    Say("launch", kernels.Fill(blocks.stream, 0x1000, 16, 1));
    Say("wait", cuCtxSynchronize());
    Say("free", cuMemFree(blocks.small));
  }
  Say("reset", cuDevicePrimaryCtxReset(0));
  StartDevice();
  const Kernels kernels;
  for (const std::size_t bytes : {std::size_t{5000}, 4 * kMiB}) {
    const CUdeviceptr block = Allocate(bytes);
    Say("launch", kernels.Fill(nullptr, block, 1000, 5));
    Say("wait", cuCtxSynchronize());
    Print("word %u", ReadWord(block));
    Say("free", cuMemFree(block));
    Say("free again", cuMemFree(block));
  }
}
// On a real device the whole process is said to be lost.
const Scene kReset("reset", "simulated", Reset);

// One context's error is not another's.
void OtherContext() {
  if (!HasDevices(2)) return;
  CUcontext second = StartDevice(1);
  const CUdeviceptr kept = Allocate(5000);
  const CUdeviceptr theirs = Allocate(5000);
  CUcontext first = StartDevice(0);
  const Kernels kernels;
  const Blocks blocks = MakeBlocks();
  Say("launch", kernels.Fill(blocks.stream, 0x1000, 16, 1));
  Say("wait", cuCtxSynchronize());
  Say("free", cuMemFree(blocks.small));
  Say("free of the other's", cuMemFree(theirs));  // the current context counts
  Must("second", cuCtxSetCurrent(second));
  CUdeviceptr more = 0;
  Say("allocate", cuMemAlloc(&more, 5000));
  Say("fill", cuMemsetD32(kept, 7, 100));
  Print("word %u", ReadWord(kept));
  Say("free", cuMemFree(kept));
  Say("free", cuMemFree(more));
  Must("first", cuCtxSetCurrent(first));
  Say("wait", cuCtxSynchronize());
}
const Scene kOtherContext("other-context", "simulated SIMCUDA_DEVICES=2", OtherContext);

}  // namespace
}  // namespace semantics
