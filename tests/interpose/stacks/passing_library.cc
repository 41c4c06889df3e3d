// A library that only calls back, built several times under names that mean something to the recorder.
#include <cstdint>

// NUMBER makes each build a different file with the same layout.
extern "C" __attribute__((visibility("default"), noinline)) std::uint64_t PassOn(std::uint64_t (*function)(void*),
                                                                                 void* argument) {
  const std::uint64_t result = function(argument);
  asm volatile("" : : : "memory");
  return result + NUMBER - NUMBER;
}
extern "C" __attribute__((visibility("default"))) int PassOnNumber() { return NUMBER; }
// Passes on through another library's PassOn.
extern "C" __attribute__((visibility("default"), noinline)) std::uint64_t PassOnThrough(
    std::uint64_t (*other)(std::uint64_t (*)(void*), void*), std::uint64_t (*function)(void*), void* argument) {
  const std::uint64_t result = other(function, argument);
  asm volatile("" : : : "memory");
  return result + NUMBER - NUMBER;
}
