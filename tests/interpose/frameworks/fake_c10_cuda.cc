// Stands in for PyTorch's libc10_cuda.so: the allocator's side of the reports. With FAKE_C10_INSIDE it is a version
// that does not import the function.
#include <cstddef>
#include <cstdint>
#include <cstdio>

#define EXPORTED __attribute__((visibility("default")))

namespace c10 {

struct Device {
  std::int8_t type;
  std::int8_t index;
};

#ifdef FAKE_C10_INSIDE
namespace {
void reportMemoryUsageToProfiler(void* address, std::int64_t bytes, std::size_t, std::size_t, Device) {
  std::printf("inside %p %lld\n", address, static_cast<long long>(bytes));
}
void reportOutOfMemoryToProfiler(std::int64_t, std::size_t, std::size_t, Device) {}
}  // namespace
#else
void reportMemoryUsageToProfiler(void*, std::int64_t, std::size_t, std::size_t, Device);
void reportMemoryUsageToProfiler(void*, std::int64_t, std::int64_t, std::int64_t, Device);
void reportOutOfMemoryToProfiler(std::int64_t, std::size_t, std::size_t, Device);
#endif

}  // namespace c10

extern "C" EXPORTED void FakeUsage(void* address, std::int64_t bytes, std::size_t allocated, std::size_t reserved,
                                   int type, int index) {
  c10::reportMemoryUsageToProfiler(address, bytes, allocated, reserved,
                                   c10::Device{static_cast<std::int8_t>(type), static_cast<std::int8_t>(index)});
}

#ifndef FAKE_C10_INSIDE
extern "C" EXPORTED void FakeSignedUsage(void* address, std::int64_t bytes, std::int64_t allocated,
                                         std::int64_t reserved) {
  c10::reportMemoryUsageToProfiler(address, bytes, allocated, reserved, c10::Device{1, 0});
}
#endif

extern "C" EXPORTED void FakeOutOfMemory(std::int64_t bytes, std::size_t allocated, std::size_t reserved) {
  c10::reportOutOfMemoryToProfiler(bytes, allocated, reserved, c10::Device{1, 0});
}
