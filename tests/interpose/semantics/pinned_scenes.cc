// Pinned and registered host memory beside blocks of the pool: flags, addresses, errors, and copies whose end the host
// must see. Source: CUDA Driver API, cuMemHostAlloc, cuMemHostRegister, cuMemHostUnregister, cuMemHostGetDevicePointer,
// cuMemHostGetFlags.
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/interpose/semantics/scene.h"

namespace semantics {
namespace {

void Flags() {
  StartDevice();
  for (const unsigned flags :
       {0u, static_cast<unsigned>(CU_MEMHOSTALLOC_PORTABLE), static_cast<unsigned>(CU_MEMHOSTALLOC_DEVICEMAP),
        static_cast<unsigned>(CU_MEMHOSTALLOC_WRITECOMBINED), 0x80u}) {
    void* memory = nullptr;
    const CUresult result = cuMemHostAlloc(&memory, 5000, flags);
    Say("flags", flags, result);
    if (result != CUDA_SUCCESS) continue;
    unsigned seen = 0;
    CUdeviceptr device = 0;
    Say("flags of it", cuMemHostGetFlags(&seen, memory));
    Print("write-combined %d", (seen & CU_MEMHOSTALLOC_WRITECOMBINED) != 0);
    Say("device pointer", cuMemHostGetDevicePointer(&device, memory, 0));
    Fill(device, 77, 4000);
    Must("wait", cuCtxSynchronize());
    unsigned word = 0;
    std::memcpy(&word, memory, sizeof word);
    Print("word %u", word);
    Say("free by the wrong function", cuMemFree(device));
    Say("free", cuMemFreeHost(memory));
    Say("free again", cuMemFreeHost(memory));
    Say("flags of freed", cuMemHostGetFlags(&seen, memory));
  }
  const CUdeviceptr block = Allocate(5000);
  unsigned seen = 0;
  Say("flags of a block", cuMemHostGetFlags(&seen, reinterpret_cast<void*>(block)));
  Say("free a block", cuMemFreeHost(reinterpret_cast<void*>(block)));
  Say("free", cuMemFree(block));
}
const Scene kFlags("flags", "", Flags);

constexpr std::size_t kPages = 16 * 4096;

char* Mapped() {
  void* memory = mmap(nullptr, kPages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<char*>(memory);
}

void Register() {
  StartDevice();
  char* memory = Mapped();
  Say("register", cuMemHostRegister(memory, kPages, CU_MEMHOSTREGISTER_DEVICEMAP));
  Say("again", cuMemHostRegister(memory, kPages, 0));
  Say("a part", cuMemHostRegister(memory + 4096, 4096, 0));
  CUdeviceptr device = 0;
  Say("device pointer", cuMemHostGetDevicePointer(&device, memory + 4096, 0));
  const CUdeviceptr block = Allocate(4096);
  Fill(block, 66, 4096);
  Say("copy", cuMemcpyDtoD(device, block, 4096));
  Must("wait", cuCtxSynchronize());
  unsigned word = 0;
  std::memcpy(&word, memory + 4096, sizeof word);
  Print("word %u", word);
  Say("unregister inside", cuMemHostUnregister(memory + 4096));
  Say("free registered", cuMemFreeHost(memory));
  Say("unregister", cuMemHostUnregister(memory));
  Say("unregister again", cuMemHostUnregister(memory));
  Say("device pointer", cuMemHostGetDevicePointer(&device, memory, 0));
  Say("in two parts", cuMemHostRegister(memory, kPages / 2, 0));
  Say("in two parts", cuMemHostRegister(memory + kPages / 2, kPages / 2, 0));
  Say("over both", cuMemHostRegister(memory, kPages, 0));
  Say("unregister", cuMemHostUnregister(memory));
  Say("unregister", cuMemHostUnregister(memory + kPages / 2));
  Say("no bytes", cuMemHostRegister(memory, 0, 0));
  Say("no address", cuMemHostRegister(nullptr, kPages, 0));
  Say("free", cuMemFree(block));
  munmap(memory, kPages);
}
const Scene kRegisterAndUnregister("register", "", Register);

// Registered again and again at one address, with blocks that come and go: each round's bytes are its own.
void Rounds() {
  StartDevice();
  CUstream stream = NewStream();
  char* memory = Mapped();
  for (unsigned round = 0; round < 10; ++round) {
    Must("register", cuMemHostRegister(memory, kPages, 0));
    const CUdeviceptr block = Allocate(kPages);
    Must("fill", cuMemsetD32Async(block, 500 + round, kPages / 4, stream));
    Must("copy", cuMemcpyDtoHAsync(memory, block, kPages, stream));
    Say("free", cuMemFree(block));
    Say("unregister", cuMemHostUnregister(memory));
    Must("wait", cuStreamSynchronize(stream));
    unsigned word = 0;
    std::memcpy(&word, memory + kPages - 4, sizeof word);
    Print("word %u", word);
  }
  munmap(memory, kPages);
}
const Scene kRounds("rounds", "", Rounds);

// Portable memory is every context's.
void Portable() {
  StartDevice();
  void* memory = nullptr;
  Must("pinned", cuMemHostAlloc(&memory, 4096, CU_MEMHOSTALLOC_PORTABLE));
  CUcontext other = nullptr;
  Must("context", cuCtxCreate(&other, nullptr, 0, 0));
  const CUdeviceptr block = Allocate(4096);
  Fill(block, 31, 4096);
  CUstream stream = NewStream();
  Say("copy", cuMemcpyDtoHAsync(memory, block, 4096, stream));
  Say("wait", cuStreamSynchronize(stream));
  unsigned word = 0;
  std::memcpy(&word, memory, sizeof word);
  Print("word %u", word);
  Say("destroy", cuCtxDestroy(other));
  std::memcpy(&word, memory, sizeof word);
  Print("word %u", word);
  Say("free", cuMemFreeHost(memory));
}
const Scene kPortable("portable", "", Portable);

}  // namespace
}  // namespace semantics
