// Virtual memory calls on what is not the program's: memory of the driver's pools, and ranges and handles given back.
#include <cuda.h>

#include "tests/interpose/semantics/scene.h"

namespace semantics {
namespace {

constexpr unsigned kValue = 0x5EED5EED;

CUmemAllocationProp OnDevice() {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  return properties;
}

// All of them must be errors; none may do anything.
void Attack(const char* where, CUdeviceptr address, std::size_t bytes) {
  CUmemAccessDesc none = {};
  none.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  none.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  const CUmemAllocationProp properties = OnDevice();
  CUmemGenericAllocationHandle handle = 0;
  Must("create", cuMemCreate(&handle, 2 * kMiB, &properties, 0));
  Print("%s", where);
  Expect(Say("access", cuMemSetAccess(address, bytes, &none, 1)) != CUDA_SUCCESS, "access refused");
  Expect(Say("unmap", cuMemUnmap(address, bytes)) != CUDA_SUCCESS, "unmap refused");
  Expect(Say("map", cuMemMap(address, 2 * kMiB, 0, handle, 0)) != CUDA_SUCCESS, "map refused");
  Expect(Say("addresses", cuMemAddressFree(address, bytes)) != CUDA_SUCCESS, "addresses refused");
  Say("release", cuMemRelease(handle));
}

void MemoryOfPools() {
  StartDevice();
  const CUstream stream = NewStream();
  CUmemoryPool pool = nullptr;
  CUmemPoolProps plain = {};
  plain.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  plain.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  Must("pool", cuMemPoolCreate(&pool, &plain));
  CUdeviceptr large = 0, small = 0, other = 0;
  Must("large", cuMemAllocAsync(&large, 12 * kMiB, stream));
  Must("small", cuMemAllocAsync(&small, 6000, stream));
  Must("other", cuMemAllocFromPoolAsync(&other, 5 * kMiB, pool, stream));
  Must("synchronize", cuStreamSynchronize(stream));
  Fill(large, kValue, 12 * kMiB);
  Fill(small, kValue, 6000);
  Fill(other, kValue, 5 * kMiB);

  const CUdeviceptr page = (large + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB);
  Attack("the block", large, 12 * kMiB);
  Attack("a page of it", page, 2 * kMiB);
  Attack("the small one", small, 2 * kMiB);
  Attack("its page", small / (2 * kMiB) * (2 * kMiB), 2 * kMiB);
  Attack("the other pool's", other, 4 * kMiB);
  Attack("far around it", page, std::size_t{1} << 40);
  Attack("to the end of addresses", page, ~std::size_t{0} - page + 1);

  Print("holds %d %d %d", Holds(large, kValue, 12 * kMiB), Holds(small, kValue, 6000), Holds(other, kValue, 5 * kMiB));
  Say("free", cuMemFreeAsync(large, stream));
  Say("free", cuMemFreeAsync(small, stream));
  Attack("freed", page, 2 * kMiB);
  CUdeviceptr again = 0;
  Say("again", cuMemAllocAsync(&again, 12 * kMiB, stream));
  Must("synchronize", cuStreamSynchronize(stream));
  Fill(again, kValue + 1, 12 * kMiB);
  Print("holds %d %d", Holds(again, kValue + 1, 12 * kMiB), Holds(other, kValue, 5 * kMiB));
  Say("free", cuMemFree(again));
  Say("free", cuMemFree(other));
  Say("pool", cuMemPoolDestroy(pool));
}
const Scene kMemoryOfPools("memory-of-pools", "", MemoryOfPools);

// A range that reaches from the program's own mapping into whatever lies behind it.
void PastTheEnd() {
  StartDevice();
  const CUstream stream = NewStream();
  const CUmemAllocationProp properties = OnDevice();
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr range = 0;
  Must("create", cuMemCreate(&handle, 2 * kMiB, &properties, 0));
  Must("reserve", cuMemAddressReserve(&range, 2 * kMiB, 0, 0, 0));
  Must("map", cuMemMap(range, 2 * kMiB, 0, handle, 0));
  CUdeviceptr block = 0;
  Must("block", cuMemAllocAsync(&block, 3 * kMiB, stream));  // with us, new addresses: the next ones, perhaps
  Must("synchronize", cuStreamSynchronize(stream));
  Fill(block, kValue, 3 * kMiB);
  Say("unmap", cuMemUnmap(range, std::size_t{1} << 40));
  Print("holds %d", Holds(block, kValue, 3 * kMiB));
  Say("free", cuMemFree(block));
}
const Scene kPastTheEnd("past-the-end", "simulated", PastTheEnd);

// What the program gave back is not its own any more, though something of ours may have come where it was.
void GivenBack() {
  StartDevice();
  const CUstream stream = NewStream();
  const CUmemAllocationProp properties = OnDevice();
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr range = 0;
  constexpr std::size_t kSizes[] = {2 * kMiB, 32 * kMiB, 512 * kMiB, 544 * kMiB};
  for (const std::size_t bytes : kSizes) {
    Must("create", cuMemCreate(&handle, 2 * kMiB, &properties, 0));
    Must("reserve", cuMemAddressReserve(&range, bytes, 0, 0, 0));
    Must("map", cuMemMap(range, 2 * kMiB, 0, handle, 0));
    Must("unmap", cuMemUnmap(range, 2 * kMiB));
    Must("release", cuMemRelease(handle));
    Must("addresses", cuMemAddressFree(range, bytes));
    CUdeviceptr block = 0;
    Must("block", cuMemAllocAsync(&block, 2 * kMiB, stream));
    Must("synchronize", cuStreamSynchronize(stream));
    Fill(block, kValue, 2 * kMiB);
    Expect(Say("release", cuMemRelease(handle)) != CUDA_SUCCESS, "the handle is not known");
    Expect(Say("unmap", cuMemUnmap(range, 2 * kMiB)) != CUDA_SUCCESS, "nothing is mapped");
    Expect(Say("addresses", cuMemAddressFree(range, bytes)) != CUDA_SUCCESS, "the range is not known");
    Print("holds %d", Holds(block, kValue, 2 * kMiB));
    Say("free", cuMemFreeAsync(block, stream));
  }
}
const Scene kGivenBack("given-back", "simulated", GivenBack);

}  // namespace
}  // namespace semantics
