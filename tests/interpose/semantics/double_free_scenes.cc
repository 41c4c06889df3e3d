// Frees of what is freed already, of what was never allocated, and by the other function.
// Source: CUDA Driver API, cuMemFree, cuMemFreeAsync, cuMemFreeHost; each names "invalid value" among its errors.
#include <elf.h>
#include <link.h>

#include <cstring>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/interpose/semantics/scene.h"

namespace semantics {
namespace {

constexpr std::size_t kSizes[] = {1, 700, 60'000, 1 * kMiB, 2 * kMiB, 9 * kMiB};

void Synchronous() {
  StartDevice();
  for (const std::size_t bytes : kSizes) {
    const CUdeviceptr block = Allocate(bytes);
    const CUdeviceptr kept = Allocate(bytes);
    Fill(kept, 0x77, bytes);
    Say("inside", cuMemFree(block + 256));
    Say("just inside", cuMemFree(block + 1));
    if (bytes % 512 != 0) Say("behind", cuMemFree(block + bytes));  // else another block may begin there
    Say("first", cuMemFree(block));
    Say("second", cuMemFree(block));
    Say("second, in a stream", cuMemFreeAsync(block, nullptr));
    Say("synchronize", cuCtxSynchronize());
    Say("third", cuMemFree(block));
    Expect(Holds(kept, 0x77, bytes), "its neighbour as it was");
    Say("neighbour", cuMemFree(kept));
  }
}
const Scene kSynchronous("synchronous", "", Synchronous);

void InStreamOrder() {
  StartDevice();
  CUstream stream = NewStream();
  for (const std::size_t bytes : kSizes) {
    CUdeviceptr block = 0;
    CUdeviceptr kept = 0;
    Must("allocate", cuMemAllocAsync(&block, bytes, stream));
    Must("allocate", cuMemAllocAsync(&kept, bytes, stream));
    Must("fill", cuMemsetD8Async(kept, 0x55, bytes, stream));
    Say("inside", cuMemFreeAsync(block + 256, stream));
    Say("inside, now", cuMemFree(block + 256));
    Say("first", cuMemFreeAsync(block, stream));
    Say("second", cuMemFreeAsync(block, stream));
    Say("second, now", cuMemFree(block));
    Say("synchronize", cuStreamSynchronize(stream));
    Say("third", cuMemFreeAsync(block, stream));
    unsigned char byte = 0;
    Say("read", cuMemcpyDtoH(&byte, kept + bytes - 1, 1));
    Expect(byte == 0x55, "its neighbour as it was");
    Say("neighbour, now", cuMemFree(kept));
    Say("neighbour again", cuMemFreeAsync(kept, stream));
  }
}
const Scene kInStreamOrder("in-stream-order", "", InStreamOrder);

// Memory of one allocator given to the other's free: both directions are allowed.
void Mixed() {
  StartDevice();
  CUstream stream = NewStream();
  for (const std::size_t bytes : kSizes) {
    const CUdeviceptr block = Allocate(bytes);
    Say("of cuMemAlloc in a stream", cuMemFreeAsync(block, stream));
    Say("again", cuMemFreeAsync(block, stream));
    Say("again, now", cuMemFree(block));
    CUdeviceptr in_stream = 0;
    Must("allocate", cuMemAllocAsync(&in_stream, bytes, stream));
    Must("synchronize", cuStreamSynchronize(stream));
    Say("of a pool, now", cuMemFree(in_stream));
    Say("again", cuMemFree(in_stream));
    Say("again, in a stream", cuMemFreeAsync(in_stream, stream));
    Say("synchronize", cuCtxSynchronize());
  }
  CUdeviceptr managed = 0;
  Must("managed", cuMemAllocManaged(&managed, 5000, CU_MEM_ATTACH_GLOBAL));
  Say("managed", cuMemFree(managed));
  Say("managed again", cuMemFree(managed));
  CUdeviceptr pitched = 0;
  std::size_t pitch = 0;
  Must("pitched", cuMemAllocPitch(&pitched, &pitch, 100, 10, 4));
  Say("pitched", cuMemFree(pitched));
  Say("pitched again", cuMemFree(pitched));
}
const Scene kMixed("mixed", "", Mixed);

void Foreign() {
  StartDevice();
  void* host = nullptr;
  Must("pinned", cuMemHostAlloc(&host, 4096, 0));
  Say("pinned, as device memory", cuMemFree(reinterpret_cast<CUdeviceptr>(host)));
  Say("pinned, in a stream", cuMemFreeAsync(reinterpret_cast<CUdeviceptr>(host), nullptr));
  Say("pinned", cuMemFreeHost(host));
  Say("pinned again", cuMemFreeHost(host));
  const CUdeviceptr block = Allocate(4096);
  Say("device, as pinned memory", cuMemFreeHost(reinterpret_cast<void*>(block)));
  Say("device, unregistered", cuMemHostUnregister(reinterpret_cast<void*>(block)));
  int local = 0;
  Say("of the stack", cuMemFree(reinterpret_cast<CUdeviceptr>(&local)));
  Say("null", cuMemFree(0));
  Say("null, in a stream", cuMemFreeAsync(0, nullptr));
  Say("null, host", cuMemFreeHost(nullptr));
  Say("nonsense", cuMemFree(0x1234567));
  Say("nonsense", cuMemFree(~CUdeviceptr{0}));
  // Mapped by the program itself: that is unmapped, not freed.
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle made = 0;
  CUdeviceptr range = 0;
  Must("create", cuMemCreate(&made, 2 * kMiB, &properties, 0));
  Must("reserve", cuMemAddressReserve(&range, 2 * kMiB, 0, 0, 0));
  Must("map", cuMemMap(range, 2 * kMiB, 0, made, 0));
  Say("mapped", cuMemFree(range));
  Say("block", cuMemFree(block));
}
const Scene kForeign("foreign", "", Foreign);

// The address of an exported function, read from the driver's own symbol table: no look-up that anyone can hook. Stands
// for a program that took its pointers before the hooks were there.
void* UnhookedDriverFunction(const char* name) {
  struct Search {
    std::string_view name;
    void* found = nullptr;
  } search{name};
  const auto look = [](dl_phdr_info* object, std::size_t, void* data) {
    auto* wanted = static_cast<Search*>(data);
    const std::string_view path = object->dlpi_name;
    if (path.find("libcuda.so") == std::string_view::npos) return 0;
    const ElfW(Sym)* symbols = nullptr;
    const char* strings = nullptr;
    for (int i = 0; i < object->dlpi_phnum; ++i) {
      if (object->dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
      const auto* entry = reinterpret_cast<const ElfW(Dyn)*>(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
      for (; entry->d_tag != DT_NULL; ++entry) {
        if (entry->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(entry->d_un.d_ptr);
        if (entry->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(entry->d_un.d_ptr);
      }
    }
    // The string table follows the symbol table in every linker's output: its start bounds the walk.
    for (const auto* symbol = symbols; symbol != nullptr && reinterpret_cast<const char*>(symbol + 1) <= strings;
         ++symbol) {
      if (symbol->st_value != 0 && wanted->name == strings + symbol->st_name)
        wanted->found = reinterpret_cast<void*>(object->dlpi_addr + symbol->st_value);
    }
    return wanted->found != nullptr ? 1 : 0;
  };
  dl_iterate_phdr(look, &search);
  return search.found;
}

void BeforeTheHooks() {
  StartDevice();
  using AllocateFunction = CUresult (*)(CUdeviceptr*, std::size_t);
  const auto real_allocate = reinterpret_cast<AllocateFunction>(UnhookedDriverFunction("cuMemAlloc_v2"));
  Expect(real_allocate != nullptr, "the driver's own function found");
  if (real_allocate == nullptr) return;
  for (const std::size_t bytes : kSizes) {
    CUdeviceptr block = 0;
    Say("allocate", real_allocate(&block, bytes));
    CUdeviceptr base = 0;
    std::size_t size = 0;
    Say("range", cuMemGetAddressRange(&base, &size, block));
    Print("begins %d size %zu", base == block, size);
    Say("inside", cuMemFree(block + 256));
    Say("free", cuMemFree(block));
    Say("again", cuMemFree(block));
    Must("allocate", real_allocate(&block, bytes));
    Say("free, in a stream", cuMemFreeAsync(block, nullptr));
    Say("synchronize", cuCtxSynchronize());
  }
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  Say("info", cuMemGetInfo(&free_bytes, &total));
}
const Scene kBeforeTheHooks("before-the-hooks", "", BeforeTheHooks);

// One of two threads that free the same block is told.
void Together() {
  CUcontext context = StartDevice();
  int freed = 0;
  int refused = 0;
  int other = 0;
  for (int round = 0; round < 50; ++round) {
    const CUdeviceptr block = Allocate(round % 2 == 0 ? 5000 : 4 * kMiB);
    CUresult results[2] = {};
    std::vector<std::thread> threads;
    for (CUresult& result : results) {
      threads.emplace_back([&result, context, block] {
        cuCtxSetCurrent(context);
        result = cuMemFree(block);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const CUresult result : results) {
      freed += result == CUDA_SUCCESS ? 1 : 0;
      refused += result == CUDA_ERROR_INVALID_VALUE ? 1 : 0;
      other += result != CUDA_SUCCESS && result != CUDA_ERROR_INVALID_VALUE ? 1 : 0;
    }
  }
  Print("freed %d refused %d other %d", freed, refused, other);
}
const Scene kTogether("together", "", Together);

}  // namespace
}  // namespace semantics
