// Scenes of driver calls, one a run, whose results a program could see. The same lines must come out with and without
// the preload library: no addresses are printed, only results, sizes, relations and bytes.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tools/simcuda/simcuda.h"

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

int Say(const char* what, int result) {
  std::printf("%s %d\n", what, result);
  return result;
}

CUcontext StartDevice() {
  CUcontext context = nullptr;
  CUdevice device = 0;
  Say("init", cuInit(0));
  Say("device", cuDeviceGet(&device, 0));
  Say("retain", cuDevicePrimaryCtxRetain(&context, device));
  Say("current", cuCtxSetCurrent(context));
  return context;
}

CUdeviceptr Allocate(std::size_t bytes) {
  CUdeviceptr address = 0;
  if (cuMemAlloc(&address, bytes) != CUDA_SUCCESS) Say("allocation failed", static_cast<int>(bytes >> 20));
  return address;
}

unsigned ReadWord(CUdeviceptr address) {
  unsigned word = 0;
  Say("read", cuMemcpyDtoH(&word, address, sizeof(word)));
  return word;
}

// Sizes seen by queries, wrong frees, bytes.
int Basics() {
  StartDevice();
  std::vector<CUdeviceptr> blocks;
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{512}, std::size_t{1000}, 1 * kMiB, 3 * kMiB, 64 * kMiB}) {
    const CUdeviceptr block = Allocate(bytes);
    CUdeviceptr base = 0;
    std::size_t size = 0;
    Say("range", cuMemGetAddressRange(&base, &size, block + bytes - 1));
    std::printf("begins %d size %zu aligned %d\n", base == block, size, block % 256 == 0);
    CUdeviceptr start = 0;
    Say("attribute", cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, block + bytes / 2));
    std::printf("start %d\n", start == block);
    Say("fill", cuMemsetD8(block, static_cast<unsigned char>(bytes), bytes));
    blocks.push_back(block);
  }
  std::printf("word %x\n", ReadWord(blocks[2]));
  for (const CUdeviceptr block : blocks) {
    Say("interior free", cuMemFree(block + 256));
    Say("free", cuMemFree(block));
    Say("double free", cuMemFree(block));
    CUdeviceptr base = 0;
    std::size_t size = 0;
    Say("range of freed", cuMemGetAddressRange(&base, &size, block));
    CUmemorytype type = {};
    Say("type of freed", cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block));
  }
  Say("free null", cuMemFree(0));
  Say("free nonsense", cuMemFree(0x1234567));
  CUdeviceptr none = 17;
  Say("no bytes", cuMemAlloc(&none, 0));
  Say("no place", cuMemAlloc(nullptr, 1));
  Say("too much", cuMemAlloc(&none, std::size_t{1} << 50));
  std::printf("untouched %d\n", none == 17);
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  Say("info", cuMemGetInfo(&free_bytes, &total));
  std::printf("all free %d\n", free_bytes == total);
  return 0;
}

// Without a context, and with one that is gone.
int Contexts() {
  CUdeviceptr block = 0;
  Say("before init", cuMemAlloc(&block, 64));
  CUcontext primary = StartDevice();
  const CUdeviceptr kept = Allocate(1000);
  Say("no context", cuCtxSetCurrent(nullptr));
  Say("allocation", cuMemAlloc(&block, 64));
  Say("free", cuMemFree(kept));
  CUcontext second = nullptr;
  Say("create", cuCtxCreate(&second, nullptr, 0, 0));
  const CUdeviceptr in_second = Allocate(1000);
  Say("free of the other's", cuMemFree(kept));
  Say("destroy", cuCtxDestroy(second));
  Say("primary", cuCtxSetCurrent(primary));
  Say("free of destroyed", cuMemFree(in_second));
  for (int i = 0; i < 20; ++i) Allocate(3 * kMiB);
  Say("reset", cuDevicePrimaryCtxReset(0));
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  Say("again", cuDevicePrimaryCtxRetain(&primary, 0));
  Say("current", cuCtxSetCurrent(primary));
  Say("info", cuMemGetInfo(&free_bytes, &total));
  std::printf("all free %d\n", free_bytes == total);
  block = Allocate(1000);
  Say("free", cuMemFree(block));
  Say("release", cuDevicePrimaryCtxRelease(0));
  Say("release", cuDevicePrimaryCtxRelease(0));
  Say("release", cuDevicePrimaryCtxRelease(0));
  return 0;
}

// Every kind of request after the pool holds nearly all memory (64 MiB devices): our cache never causes an
// out-of-memory.
int Rescue() {
  StartDevice();
  const auto fill_and_free = [] {
    std::vector<CUdeviceptr> blocks;
    for (int i = 0; i < 14; ++i) blocks.push_back(Allocate(4 * kMiB));
    for (int i = 0; i < 200; ++i) blocks.push_back(Allocate(20000));
    for (const CUdeviceptr block : blocks) cuMemFree(block);
  };
  CUdeviceptr block = 0;
  std::size_t pitch = 0;
  fill_and_free();
  Say("one large", cuMemAlloc(&block, 60 * kMiB));
  Say("free", cuMemFree(block));
  fill_and_free();
  Say("pitched", cuMemAllocPitch(&block, &pitch, 1 * kMiB, 50, 4));
  Say("free", cuMemFree(block));
  fill_and_free();
  Say("stream-ordered", cuMemAllocAsync(&block, 56 * kMiB, nullptr));
  Say("free", cuMemFreeAsync(block, nullptr));
  Say("synchronize", cuCtxSynchronize());
  return 0;
}

// Programs read host memory right after cuMemFree: the native one has waited.
int Barrier() {
  StartDevice();
  CUstream stream = nullptr;
  Say("stream", cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  void* host = nullptr;
  Say("pinned", cuMemHostAlloc(&host, 4096, 0));
  auto* words = static_cast<unsigned*>(host);
  words[0] = 0;
  const CUdeviceptr source = Allocate(4096);
  const CUdeviceptr other = Allocate(4096);
  Say("fill", cuMemsetD32Async(source, 0xABCD, 1024, stream));
  Say("copy", cuMemcpyDtoHAsync(host, source, 4096, stream));
  Say("free", cuMemFree(other));
  std::printf("word %x\n", words[0]);
  // The same with the source itself.
  Say("fill", cuMemsetD32Async(source, 0x1234, 1024, stream));
  Say("copy", cuMemcpyDtoHAsync(host, source, 4096, stream));
  Say("free", cuMemFree(source));
  std::printf("word %x\n", words[0]);
  Say("free host", cuMemFreeHost(host));
  return 0;
}

// A block freed while work that uses it is still queued must not be given to anyone who could notice.
int UseAfterFree() {
  StartDevice();
  CUstream stream = nullptr;
  Say("stream", cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  const CUdeviceptr first = Allocate(4096);
  const CUdeviceptr result = Allocate(4096);
  Say("fill", cuMemsetD32Async(first, 0x11, 1024, stream));
  Say("copy", cuMemcpyDtoDAsync(result, first, 4096, stream));
  Say("free", cuMemFree(first));
  const CUdeviceptr second = Allocate(4096);
  Say("fill", cuMemsetD32(second, 0x22, 1024));
  Say("synchronize", cuCtxSynchronize());
  std::printf("result %x second %x\n", ReadWord(result), ReadWord(second));
  return 0;
}

// After a fatal error every call says so, with and without us.
int Fatal() {
  StartDevice();
  const CUdeviceptr block = Allocate(4096);
  const CUdeviceptr large = Allocate(4 * kMiB);
  Say("inject", simcuda_inject("cuMemcpyDtoD_v2", 1, CUDA_ERROR_ILLEGAL_ADDRESS, 1));
  Say("copy", cuMemcpyDtoD(block, large, 64));
  CUdeviceptr more = 0;
  Say("allocation", cuMemAlloc(&more, 64));
  Say("free", cuMemFree(block));
  Say("free", cuMemFree(large));
  Say("synchronize", cuCtxSynchronize());
  return 0;
}

int Injected(const char* function, int code) {
  StartDevice();
  Say("inject", simcuda_inject(function, 1, static_cast<CUresult>(code), 0));
  CUdeviceptr block = 0;
  Say("allocation", cuMemAlloc(&block, 4 * kMiB));
  Say("allocation", cuMemAlloc(&block, 4 * kMiB));
  Say("managed", cuMemAllocManaged(&block, 4096, CU_MEM_ATTACH_GLOBAL));
  Say("free", cuMemFree(block));
  Say("free", cuMemFree(block));
  return 0;
}

int Fork() {
  StartDevice();
  const CUdeviceptr block = Allocate(4096);
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    CUdeviceptr in_child = 0;
    Say("child allocation", cuMemAlloc(&in_child, 64));
    Say("child free", cuMemFree(block));
    std::fflush(stdout);
    _exit(5);
  }
  int status = 0;
  waitpid(child, &status, 0);
  Say("child status", WEXITSTATUS(status));
  Say("free", cuMemFree(block));
  return 0;
}

// Calls after our own exit handler: cuMemAlloc and cuMemFree from a handler registered first, and so run last.
CUdeviceptr at_exit_block = 0;
int AtExit() {
  std::atexit([] {
    CUdeviceptr more = 0;
    Say("late allocation", cuMemAlloc(&more, 4096));
    Say("late free", cuMemFree(at_exit_block));
    std::fflush(stdout);
  });
  StartDevice();
  at_exit_block = Allocate(4096);
  return 0;
}

int Threads() {
  CUcontext context = StartDevice();
  std::vector<std::thread> threads;
  std::vector<int> failures(8);
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([t, context, &failures] {
      cuCtxSetCurrent(context);
      std::vector<CUdeviceptr> blocks;
      for (int i = 0; i < 300; ++i) {
        const auto mark = static_cast<unsigned>(t * 1000 + i);
        CUdeviceptr block = 0;
        const std::size_t bytes = (i % 7 == 0) ? 3 * kMiB : 256u * static_cast<unsigned>(i % 50 + 1);
        if (cuMemAlloc(&block, bytes) != CUDA_SUCCESS) ++failures[t];
        if (cuMemsetD32(block, mark, 64) != CUDA_SUCCESS) ++failures[t];
        unsigned word = 0;
        if (cuMemcpyDtoH(&word, block, sizeof(word)) != CUDA_SUCCESS || word != mark) ++failures[t];
        blocks.push_back(block);
        if (i % 3 == 2) {
          if (cuMemFree(blocks[blocks.size() / 2]) != CUDA_SUCCESS) ++failures[t];
          blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(blocks.size() / 2));
        }
        if (i % 50 == 49 && cuCtxSynchronize() != CUDA_SUCCESS) ++failures[t];
      }
      for (const CUdeviceptr block : blocks) {
        if (cuMemFree(block) != CUDA_SUCCESS) ++failures[t];
      }
    });
  }
  int total = 0;
  for (std::size_t t = 0; t < threads.size(); ++t) {
    threads[t].join();
    total += failures[t];
  }
  return Say("failures", total);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string scene = argc > 1 ? argv[1] : "";
  if (scene == "basics") return Basics();
  if (scene == "contexts") return Contexts();
  if (scene == "rescue") return Rescue();
  if (scene == "barrier") return Barrier();
  if (scene == "use-after-free") return UseAfterFree();
  if (scene == "fatal") return Fatal();
  if (scene == "injected" && argc == 4) return Injected(argv[2], std::atoi(argv[3]));
  if (scene == "fork") return Fork();
  if (scene == "at-exit") return AtExit();
  if (scene == "threads") return Threads();
  return 2;
}
