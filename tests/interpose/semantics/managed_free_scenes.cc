// The host reads managed memory after frees, which natively have waited for the device.
// Source: CUDA C++ Programming Guide, "Unified Memory": coherence and concurrency.
#include <dlfcn.h>

#include "tests/interpose/semantics/scene.h"

namespace semantics {
namespace {

constexpr std::size_t kSizes[] = {4096, 3 * kMiB};

// Managed memory, written by the device, read by the host after a free: of another block, and with an idle one about.
void ManagedThenFree() {
  StartDevice();
  const Kernels kernels;
  for (const std::size_t bytes : kSizes) {
    CUdeviceptr managed = 0;
    Must("managed", cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    const CUdeviceptr block = Allocate(bytes);
    Must("launch", kernels.Fill(nullptr, managed, 1024, 0x55));
    Say("free", cuMemFree(block));
    const auto* words = reinterpret_cast<volatile unsigned*>(managed);
    Print("word %x", words[1023]);
    Expect(words[1023] == 0x55, "the kernel complete after a free");
    Must("launch", kernels.Fill(nullptr, managed, 1024, 0x56));
    Say("free in stream order", cuMemFreeAsync(Allocate(bytes), nullptr));
    Say("wait", cuCtxSynchronize());
    Print("word %x", words[1023]);
    Say("free managed", cuMemFree(managed));
  }
}
const Scene kManagedThenFree("managed-then-free", "", ManagedThenFree);

// The other way about: the host writes, and frees of blocks lie between that and the kernel that reads.
void WrittenByTheHost() {
  StartDevice();
  const Kernels kernels;
  for (const std::size_t bytes : kSizes) {
    CUdeviceptr managed = 0;
    Must("managed", cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    auto* words = reinterpret_cast<volatile unsigned*>(managed);
    for (unsigned round = 1; round <= 4; ++round) {
      const CUdeviceptr block = Allocate(bytes);
      words[7] = round;
      Must("launch", kernels.Copy(nullptr, block, managed, 4096));
      Must("launch", kernels.ScaleAdd(nullptr, managed, 1024, 10, 1));
      const CUdeviceptr other = Allocate(bytes);
      Say("free", cuMemFree(other));
      Print("word %u", words[7]);
      Expect(words[7] == round * 10 + 1, "the kernels complete after a free");
      Print("copied %u", ReadWord(block + 28));
      Say("free", cuMemFree(block));
    }
    Say("free managed", cuMemFree(managed));
    Say("again", cuMemFree(managed));
  }
}
const Scene kWrittenByTheHost("written-by-the-host", "", WrittenByTheHost);

// A __managed__ variable, which no call allocates: the program only asks where it lies.
constexpr const char* kVariable = R"(
.version 6.0
.target sm_50
.address_size 64

.visible .global .align 4 .attribute(.managed) .b32 counters[1024];
)";

CUdeviceptr ManagedVariable() {
  // The simulated driver reads no images, and must be told.
  using Declare = CUresult (*)(const char*, std::size_t, int);
  if (const auto declare = reinterpret_cast<Declare>(dlsym(RTLD_DEFAULT, "simcuda_declare_variable"))) {
    Must("declare", declare("counters", 4096, 1));
  }
  CUlibrary library = nullptr;
  Must("library", cuLibraryLoadData(&library, kVariable, nullptr, nullptr, 0, nullptr, nullptr, 0));
  CUdeviceptr variable = 0;
  std::size_t bytes = 0;
  Must("variable", cuLibraryGetManaged(&variable, &bytes, library, "counters"));
  Print("%zu bytes", bytes);
  return variable;
}

void ManagedVariableThenFree() {
  StartDevice();
  const Kernels kernels;
  const CUdeviceptr variable = ManagedVariable();
  const auto* words = reinterpret_cast<volatile unsigned*>(variable);
  for (const std::size_t bytes : kSizes) {
    for (unsigned round = 1; round <= 3; ++round) {
      const CUdeviceptr block = Allocate(bytes);
      Must("launch", kernels.Fill(nullptr, variable, 1024, round));
      Say("free", cuMemFree(block));
      Print("words %u %u", words[0], words[1023]);
      Expect(words[1023] == round, "the kernel complete after a free");
    }
  }
}
const Scene kManagedVariableThenFree("managed-variable-then-free", "", ManagedVariableThenFree);

}  // namespace
}  // namespace semantics
