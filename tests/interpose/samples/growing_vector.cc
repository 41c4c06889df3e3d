// Virtual memory management: a vector on the device that grows in place, as its address range is reserved at the start
// and physical memory is mapped behind what is there.
#include "tests/interpose/samples/check.h"

namespace {

class GrowingVector {
 public:
  GrowingVector(CUdevice device, std::size_t most) {
    properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties_.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    CHECK_DRIVER(cuMemGetAllocationGranularity(&page_, &properties_, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    range_ = (most + page_ - 1) / page_ * page_;
    CHECK_DRIVER(cuMemAddressReserve(&start_, range_, 0, 0, 0));
  }

  void GrowTo(std::size_t bytes) {
    if (bytes <= mapped_) return;
    const std::size_t more = (bytes - mapped_ + page_ - 1) / page_ * page_;
    CUmemGenericAllocationHandle handle = 0;
    CHECK_DRIVER(cuMemCreate(&handle, more, &properties_, 0));
    CHECK_DRIVER(cuMemMap(start_ + mapped_, more, 0, handle, 0));
    CHECK_DRIVER(cuMemRelease(handle));  // it stays as long as it is mapped
    const CUmemAccessDesc access{properties_.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CHECK_DRIVER(cuMemSetAccess(start_ + mapped_, more, &access, 1));
    pieces_.push_back({start_ + mapped_, more});
    mapped_ += more;
  }

  void Destroy() {
    CHECK_DRIVER(cuCtxSynchronize());  // unmapping waits for nobody
    for (const auto& [address, bytes] : pieces_) CHECK_DRIVER(cuMemUnmap(address, bytes));
    CHECK_DRIVER(cuMemAddressFree(start_, range_));
  }

  CUdeviceptr data() const { return start_; }

 private:
  CUmemAllocationProp properties_{};
  std::size_t page_ = 0, range_ = 0, mapped_ = 0;
  CUdeviceptr start_ = 0;
  std::vector<std::pair<CUdeviceptr, std::size_t>> pieces_;
};

}  // namespace

int main() {
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUdeviceptr beside = 0;
  int supported = 0;
  CHECK_DRIVER(cuInit(0));
  CHECK_DRIVER(cuDeviceGet(&device, 0));
  CHECK_DRIVER(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device));
  if (supported == 0) samples::Skip("the device has no virtual memory management");
  CHECK_DRIVER(cuDevicePrimaryCtxRetain(&context, device));
  CHECK_DRIVER(cuCtxSetCurrent(context));
  GrowingVector vector(device, std::size_t{64} << 20);
  std::size_t bytes = 0;
  for (unsigned round = 0; round < 5; ++round) {
    // What the vector does not hold comes from the ordinary allocator.
    const std::vector<unsigned> part = samples::Sequence(200'000 * (round + 1), round, 3);
    const std::size_t part_bytes = part.size() * sizeof(unsigned);
    CHECK_DRIVER(cuMemAlloc(&beside, part_bytes));
    CHECK_DRIVER(cuMemcpyHtoD(beside, part.data(), part_bytes));
    vector.GrowTo(bytes + part_bytes);
    CHECK_DRIVER(cuMemcpyDtoD(vector.data() + bytes, beside, part_bytes));
    CHECK_DRIVER(cuMemFree(beside));
    bytes += part_bytes;
  }
  std::vector<unsigned> all(bytes / sizeof(unsigned));
  CHECK_DRIVER(cuMemcpyDtoH(all.data(), vector.data(), bytes));
  std::printf("%zu words, checksum %llx\n", all.size(), samples::Checksum(all));
  samples::Expect(all[200'000] == 1 && all[200'001] == 4, "the second part");
  vector.Destroy();
  CHECK_DRIVER(cuDevicePrimaryCtxRelease(device));
  return 0;
}
