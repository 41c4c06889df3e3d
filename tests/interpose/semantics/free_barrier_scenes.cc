// What a program reads right after cuMemFree, which natively has waited for the device.
// Source: CUDA Runtime API, "API synchronization behavior"; CUDA Driver API, cuMemFree ("may perform implicit
// synchronization"); every driver does, and programs depend on it.
#include <atomic>
#include <vector>

#include "tests/interpose/semantics/scene.h"

namespace semantics {
namespace {

struct Host {
  unsigned* words = nullptr;
  explicit Host(std::size_t bytes) {
    void* made = nullptr;
    Must("pinned", cuMemHostAlloc(&made, bytes, 0));
    words = static_cast<unsigned*>(made);
    for (std::size_t i = 0; i < bytes / sizeof(unsigned); ++i) words[i] = 0;
  }
};

constexpr std::size_t kSizes[] = {4096, 3 * kMiB};

// An asynchronous copy into pinned memory, and the free of its source or of something else.
void CopyThenFree() {
  StartDevice();
  CUstream stream = NewStream();
  for (const std::size_t bytes : kSizes) {
    const Host host(4096);
    for (int round = 1; round <= 3; ++round) {
      const CUdeviceptr source = Allocate(bytes);
      const CUdeviceptr other = Allocate(bytes);
      const auto mark = static_cast<unsigned>(round * 0x101);
      Must("fill", cuMemsetD32Async(source, mark, 1024, stream));
      Must("copy", cuMemcpyDtoHAsync(host.words, source, 4096, stream));
      Say("free", cuMemFree(round % 2 == 0 ? source : other));
      Print("word %x", host.words[1023]);
      Expect(host.words[1023] == mark, "the copy complete after a free");
      Say("free", cuMemFree(round % 2 == 0 ? other : source));
    }
  }
}
const Scene kCopyThenFree("copy-then-free", "", CopyThenFree);

// Into memory that the program registered itself, and by a copy whose kinds are inferred.
void RegisteredThenFree() {
  StartDevice();
  CUstream stream = NewStream();
  alignas(4096) static unsigned words[1024];
  Say("register", cuMemHostRegister(words, sizeof(words), 0));
  for (const std::size_t bytes : kSizes) {
    const CUdeviceptr source = Allocate(bytes);
    Must("fill", cuMemsetD32Async(source, 0x77, 1024, stream));
    Must("copy", cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(words), source, sizeof(words), stream));
    Say("free", cuMemFree(source));
    Print("word %x", words[1023]);
    Expect(words[1023] == 0x77, "the copy complete after a free");
    words[1023] = 0;
  }
  Say("unregister", cuMemHostUnregister(words));
}
const Scene kRegisteredThenFree("registered-then-free", "", RegisteredThenFree);

// A kernel writes pinned memory: no copy is seen anywhere.
void KernelThenFree() {
  StartDevice();
  const Kernels kernels;
  CUstream stream = NewStream();
  void* made = nullptr;
  Must("pinned", cuMemHostAlloc(&made, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
  auto* words = static_cast<volatile unsigned*>(made);
  CUdeviceptr there = 0;
  Must("device pointer", cuMemHostGetDevicePointer(&there, made, 0));
  for (const std::size_t bytes : kSizes) {
    words[5] = 0;
    const CUdeviceptr block = Allocate(bytes);
    Must("launch", kernels.Fill(stream, there, 100, 0x66));
    Say("free", cuMemFree(block));
    Print("word %x", words[5]);
    Expect(words[5] == 0x66, "the kernel complete after a free");
  }
}
const Scene kKernelThenFree("kernel-then-free", "", KernelThenFree);

std::atomic<int> calls{0};

// A host function is outstanding: it has run when the free returns.
void HostFunctionThenFree() {
  StartDevice();
  CUstream stream = NewStream();
  for (const std::size_t bytes : kSizes) {
    const CUdeviceptr block = Allocate(bytes);
    Must("fill", cuMemsetD32Async(block, 1, 1024, stream));
    const auto count = [](void* data) { ++*static_cast<std::atomic<int>*>(data); };
    Say("host function", cuLaunchHostFunc(stream, count, &calls));
    Say("free", cuMemFree(block));
    Print("calls %d", calls.load());
    const CUdeviceptr more = Allocate(bytes);
    const auto called = [](CUstream, CUresult, void* data) { ++*static_cast<std::atomic<int>*>(data); };
    Say("callback", cuStreamAddCallback(stream, called, &calls, 0));
    Say("free", cuMemFree(more));
    Print("calls %d", calls.load());
  }
}
const Scene kHostFunctionThenFree("host-function-then-free", "", HostFunctionThenFree);

// Pinned memory freed while a copy into it is queued: natively cuMemFreeHost waits, and ours does nothing about it.
void FreeHost() {
  StartDevice();
  CUstream stream = NewStream();
  const CUdeviceptr source = Allocate(4096);
  const Host first(4096);
  const Host second(4096);
  Must("fill", cuMemsetD32Async(source, 0x44, 1024, stream));
  Must("copy", cuMemcpyDtoHAsync(first.words, source, 4096, stream));
  Say("free host", cuMemFreeHost(second.words));
  Print("word %x", first.words[1023]);
  Say("free host", cuMemFreeHost(first.words));
  Say("free", cuMemFree(source));
}
const Scene kFreeHost("free-host", "", FreeHost);

// A block freed while work that uses it is queued: its next owner must not be able to notice.
void Reuse() {
  StartDevice();
  const Kernels kernels;
  CUstream stream = NewStream();
  for (const std::size_t bytes : kSizes) {
    const CUdeviceptr result = Allocate(bytes);
    const CUdeviceptr first = Allocate(bytes);
    Must("fill", cuMemsetD32Async(first, 0x11, 1024, stream));
    Must("copy", kernels.Copy(stream, result, first, 4096));
    Say("free", cuMemFree(first));
    const CUdeviceptr second = Allocate(bytes);
    CUstream other = NewStream();
    Must("fill", cuMemsetD32Async(second, 0x22, 1024, other));
    Say("wait for the other", cuStreamSynchronize(other));
    Say("wait", cuStreamSynchronize(stream));
    Print("result %x second %x", ReadWord(result), ReadWord(second));
    Expect(ReadWord(result) == 0x11 && ReadWord(second) == 0x22, "both as if alone");
    Say("free", cuMemFree(second));
    Say("free", cuMemFree(result));
  }
}
const Scene kReuse("reuse", "", Reuse);

// The same after a free in stream order, of memory from cuMemAlloc.
void ReuseAfterFreeInStream() {
  StartDevice();
  const Kernels kernels;
  CUstream stream = NewStream();
  CUstream other = NewStream();
  for (const std::size_t bytes : kSizes) {
    const CUdeviceptr result = Allocate(bytes);
    const CUdeviceptr first = Allocate(bytes);
    Must("fill", cuMemsetD32Async(first, 0x11, 1024, stream));
    Must("copy", kernels.Copy(stream, result, first, 4096));
    Say("free in the stream", cuMemFreeAsync(first, stream));
    const CUdeviceptr second = Allocate(bytes);
    Must("fill", cuMemsetD32Async(second, 0x22, 1024, other));
    Say("wait for the other", cuStreamSynchronize(other));
    Say("wait", cuStreamSynchronize(stream));
    Print("result %x second %x", ReadWord(result), ReadWord(second));
    Say("free", cuMemFree(second));
    Say("free", cuMemFree(result));
  }
}
const Scene kReuseAfterFreeInStream("reuse-after-free-in-stream", "", ReuseAfterFreeInStream);

}  // namespace
}  // namespace semantics
