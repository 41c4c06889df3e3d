// Stands in for PyTorch's libc10.so: the profiler's side of the reports. Prints what arrives, unless FAKE_C10_SILENT.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <stdexcept>

#define EXPORTED __attribute__((visibility("default")))

namespace c10 {

struct Device {
  std::int8_t type;
  std::int8_t index;
};

EXPORTED void reportMemoryUsageToProfiler(void* address, std::int64_t bytes, std::size_t allocated,
                                          std::size_t reserved, Device device) {
#ifdef FAKE_C10_SILENT
  return;
#endif
  std::printf("usage %p %lld %zu %zu %d %d\n", address, static_cast<long long>(bytes), allocated, reserved, device.type,
              device.index);
  if (bytes == 13) throw std::runtime_error("the profiler's own");
}

EXPORTED void reportMemoryUsageToProfiler(void* address, std::int64_t bytes, std::int64_t allocated,
                                          std::int64_t reserved, Device device) {
  std::printf("signed usage %p %lld %lld %lld %d %d\n", address, static_cast<long long>(bytes),
              static_cast<long long>(allocated), static_cast<long long>(reserved), device.type, device.index);
}

EXPORTED void reportOutOfMemoryToProfiler(std::int64_t bytes, std::size_t allocated, std::size_t reserved,
                                          Device device) {
  std::printf("out of memory %lld %zu %zu %d %d\n", static_cast<long long>(bytes), allocated, reserved, device.type,
              device.index);
}

}  // namespace c10
