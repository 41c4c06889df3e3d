// What memory costs, what it says of itself, and when it comes back.
#include <algorithm>
#include <array>
#include <vector>

#include "tests/gpu/claims.h"

namespace claims {
namespace {

std::size_t FreeBytes() {
  std::size_t free_bytes = 0, total = 0;
  Must("cuMemGetInfo", cuMemGetInfo(&free_bytes, &total));
  return free_bytes;
}

CUdeviceptr Allocate(std::size_t bytes) {
  CUdeviceptr address = 0;
  Must("cuMemAlloc", cuMemAlloc(&address, bytes));
  return address;
}

std::string Bytes(std::size_t bytes) { return std::to_string(bytes) + " bytes"; }

CUmemAllocationProp OnDevice() {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = 0;
  return properties;
}

// An address range with memory of its own, accessible.
struct Mapped {
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
  CUmemGenericAllocationHandle handle = 0;
};

Mapped Map(std::size_t bytes) {
  const CUmemAllocationProp properties = OnDevice();
  Mapped mapped{0, bytes, 0};
  Must("cuMemAddressReserve", cuMemAddressReserve(&mapped.address, bytes, 2 * kMiB, 0, 0));
  Must("cuMemCreate", cuMemCreate(&mapped.handle, bytes, &properties, 0));
  Must("cuMemMap", cuMemMap(mapped.address, bytes, 0, mapped.handle, 0));
  const CUmemAccessDesc access{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  Must("cuMemSetAccess", cuMemSetAccess(mapped.address, bytes, &access, 1));
  return mapped;
}

const Claim kCharged("whole_pages", [] {
  StartDevice();
  Must("cuMemFree", cuMemFree(Allocate(3 * kMiB)));  // whatever the first allocation of a context brings along
  for (const std::size_t bytes : {kMiB + 1, 2 * kMiB, 2 * kMiB + 1, 3 * kMiB, 5 * kMiB + 512, 33 * kMiB}) {
    const std::size_t before = FreeBytes();
    const CUdeviceptr address = Allocate(bytes);
    const std::size_t charged = before - FreeBytes();
    const std::size_t pages = (bytes + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB);
    Figure(("charged for " + Bytes(bytes)).c_str(), static_cast<double>(charged), "bytes");
    Holds(charged == pages, Bytes(bytes) + " were charged " + Bytes(charged) + ", not " + Bytes(pages));
    Must("cuMemFree", cuMemFree(address));
  }
});

const Claim kFreedAtOnce("freed_at_once", [] {
  StartDevice();
  Must("cuMemFree", cuMemFree(Allocate(64 * kMiB)));
  const std::size_t before = FreeBytes();
  for (int i = 0; i < 5; ++i) {
    const CUdeviceptr address = Allocate(64 * kMiB);
    Holds(before - FreeBytes() == 64 * kMiB, "64 MiB were not charged as such");
    Must("cuMemFree", cuMemFree(address));
    Holds(FreeBytes() == before, "after cuMemFree " + Bytes(before - FreeBytes()) + " are still taken");
  }
});

const Claim kGranularity("granularity", [] {
  StartDevice();
  const CUmemAllocationProp properties = OnDevice();
  std::size_t least = 0, recommended = 0;
  Must("granularity", cuMemGetAllocationGranularity(&least, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  Must("granularity", cuMemGetAllocationGranularity(&recommended, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  Figure("least", static_cast<double>(least), "bytes");
  Figure("recommended", static_cast<double>(recommended), "bytes");
  Holds(least != 0 && 2 * kMiB % least == 0, "2 MiB are no multiple of the least page");
  const CUstream stream = NewStream();
  CUmemoryPool pool = nullptr;
  Must("cuDeviceGetDefaultMemPool", cuDeviceGetDefaultMemPool(&pool, 0));
  std::uint64_t sum = 0;
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{512}, std::size_t{1000}, kMiB + 1}) {
    CUdeviceptr address = 0;
    std::uint64_t used = 0;
    Must("cuMemAllocAsync", cuMemAllocAsync(&address, bytes, stream));
    Must("used", cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    Figure(("USED_MEM for " + Bytes(bytes)).c_str(), static_cast<double>(used - sum), "bytes");
    Holds(used - sum == (bytes + 511) / 512 * 512, "USED_MEM grew by " + Bytes(used - sum) + " for " + Bytes(bytes));
    sum = used;
  }
});

const Claim kFreedAddress("freed_address", [] {
  StartDevice();
  const CUdeviceptr freed = Allocate(8 * kMiB);
  Must("cuMemFree", cuMemFree(freed));
  const CUdeviceptr unknown = 0x10;
  for (const CUpointer_attribute attribute :
       {CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
        CU_POINTER_ATTRIBUTE_BUFFER_ID, CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_MAPPED,
        CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE}) {
    std::array<std::uint64_t, 4> one{}, other{};
    const CUresult of_freed = cuPointerGetAttribute(one.data(), attribute, freed);
    const CUresult of_unknown = cuPointerGetAttribute(other.data(), attribute, unknown);
    Holds(of_freed == of_unknown, "attribute " + std::to_string(attribute) + " of a freed address: " +
                                      std::to_string(of_freed) + ", of any: " + std::to_string(of_unknown));
  }
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  const CUresult of_freed = cuMemGetAddressRange(&base, &bytes, freed);
  Figure("cuMemGetAddressRange of a freed address", of_freed, "(CUresult)");
  Holds(of_freed == cuMemGetAddressRange(&base, &bytes, unknown), "cuMemGetAddressRange tells them apart");
});

const Claim kUnshared("not_shared", [] {
  StartDevice();
  const CUstream stream = NewStream();
  const Mapped mapped = Map(2 * kMiB);
  CUdeviceptr pooled = 0;
  Must("cuMemAllocAsync", cuMemAllocAsync(&pooled, 2 * kMiB, stream));
  Must("cuStreamSynchronize", cuStreamSynchronize(stream));
  CUipcMemHandle handle;
  const CUresult of_mapped = cuIpcGetMemHandle(&handle, mapped.address), of_pooled = cuIpcGetMemHandle(&handle, pooled);
  Figure("cuIpcGetMemHandle of mapped memory", of_mapped, "(CUresult)");
  Figure("cuIpcGetMemHandle of a pool's memory", of_pooled, "(CUresult)");
  Holds(of_mapped != CUDA_SUCCESS && of_pooled != CUDA_SUCCESS, "a handle was given");
});

const Claim kOutlives("mapped_outlives_reset", [] {
  StartDevice();
  const Mapped mapped = Map(4 * kMiB);
  Must("cuMemsetD8", cuMemsetD8(mapped.address, 0x5a, mapped.bytes));
  Must("cuCtxSynchronize", cuCtxSynchronize());
  Must("cuDevicePrimaryCtxReset", cuDevicePrimaryCtxReset(0));
  StartDevice();
  unsigned word = 0;
  Must("reading mapped memory after the reset", cuMemcpyDtoH(&word, mapped.address, sizeof(word)));
  Holds(word == 0x5a5a5a5a, "its bytes are gone");
});

const Claim kUnmap("unmap_waits_for_nobody", [] {
  StartDevice();
  const Kernels kernels;
  const CUstream user = NewStream(), busy = NewStream();
  const Mapped mapped = Map(64 * kMiB);
  kernels.Fill(user, mapped.address, 1000, 7);
  Must("cuStreamSynchronize", cuStreamSynchronize(user));
  kernels.Delay(busy, std::chrono::milliseconds(500));
  const Clock clock;
  Must("cuMemUnmap", cuMemUnmap(mapped.address, mapped.bytes));
  Must("cuMemRelease", cuMemRelease(mapped.handle));
  const double took = clock.Milliseconds();
  Figure("cuMemUnmap and cuMemRelease of 64 MiB beside a busy stream", took, "ms");
  Must("cuCtxSynchronize", cuCtxSynchronize());
  Holds(took < 250, "they waited for another stream's kernel");
});

const Claim kCost("cost_of_calls", [] {
  StartDevice();
  const CUstream stream = NewStream();
  constexpr int kRounds = 2000, kWaitingRounds = 20;
  for (const std::size_t bytes : {std::size_t{1000}, 4 * kMiB}) {
    std::vector<CUdeviceptr> warm(8);
    for (CUdeviceptr& address : warm) address = Allocate(bytes);
    for (const CUdeviceptr address : warm) Must("cuMemFree", cuMemFree(address));
    Must("cuCtxSynchronize", cuCtxSynchronize());
    double best = 1e9, best_in_stream = 1e9;
    for (int round = 0; round < 5; ++round) {
      const Clock clock;
      for (int i = 0; i < kWaitingRounds; ++i) {
        Must("cuMemFree", cuMemFree(Allocate(bytes)));
        Must("cuCtxSynchronize", cuCtxSynchronize());
      }
      best = std::min(best, clock.Milliseconds() * 1e6 / kWaitingRounds);
      const Clock in_stream;
      for (int i = 0; i < kRounds; ++i) {
        CUdeviceptr address = 0;
        Must("cuMemAllocAsync", cuMemAllocAsync(&address, bytes, stream));
        Must("cuMemFreeAsync", cuMemFreeAsync(address, stream));
      }
      best_in_stream = std::min(best_in_stream, in_stream.Milliseconds() * 1e6 / kRounds);
      Must("cuStreamSynchronize", cuStreamSynchronize(stream));
    }
    Figure(("cuMemAlloc, cuMemFree, cuCtxSynchronize, " + Bytes(bytes)).c_str(), best, "ns");
    Figure(("cuMemAllocAsync, cuMemFreeAsync, " + Bytes(bytes)).c_str(), best_in_stream, "ns");
  }
});

}  // namespace
}  // namespace claims
