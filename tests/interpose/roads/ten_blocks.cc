#include "tests/interpose/roads/ten_blocks.h"

#include <cstddef>
#include <cstdio>

namespace {

constexpr std::size_t kBlock = std::size_t{1} << 20;

bool Complete(const DriverCalls& driver) {
#define ROAD_CHECK(field, name, symbol) \
  if (driver.field == nullptr) return std::printf("missing %s\n", #name), false;
  ROAD_FUNCTIONS(ROAD_CHECK)
#undef ROAD_CHECK
  return true;
}

}  // namespace

int UseContext(const DriverCalls& driver) {
  if (!Complete(driver)) return 3;
  std::size_t free_before = 0, free_after = 0, total = 0;
  std::printf("information %d\n", driver.information(&free_before, &total));
  CUdeviceptr block = 0;
  for (int i = 0; i < 10; ++i) {
    const CUresult result = driver.allocate(&block, kBlock);  // TEN BLOCKS
    std::printf("allocate %d %s\n", result, block != 0 ? "address" : "none");
  }
  std::printf("information %d\n", driver.information(&free_after, &total));
  std::printf("taken %s\n", free_before >= free_after + 10 * kBlock ? "ten blocks or more" : "less than ten blocks");
  unsigned word = 0xabcd1234, back = 0;
  std::printf("copies %d", driver.to_device(block, &word, sizeof(word)));
  std::printf(" %d", driver.to_host(&back, block, sizeof(back)));
  std::printf(" %x\n", back);
  CUdeviceptr freed = 0;
  const CUresult result = driver.allocate(&freed, kBlock);  // ONE MORE
  std::printf("one more %d, freed %d\n", result, driver.free(freed));
  std::fflush(stdout);  // the C library of another namespace is flushed by nobody else
  return 0;
}

int UseDriver(const DriverCalls& driver) {
  if (!Complete(driver)) return 3;
  CUdevice device = -1;
  CUcontext context = nullptr;
  std::printf("init %d\n", driver.init(0));
  std::printf("device %d\n", driver.device(&device, 0));
  std::printf("retain %d\n", driver.retain(&context, device));
  std::printf("current %d\n", driver.set_current(context));
  return UseContext(driver);
}
