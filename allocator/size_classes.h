// Size classes of packed blocks: multiples of 512 bytes up to 2 KiB, then four steps per doubling.
//
//   512 1024 1536 2048 | 2560 3072 3584 4096 | 5120 6144 7168 8192 | 10240 12288 14336 16384 | ...
//
// So a block of more than 2 KiB is at most 25 % larger than what was asked for, and every block is a multiple of 512
// bytes, the alignment that cuMemAlloc gives in practice and that textures need
// (CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT).
#ifndef CUHEAP_ALLOCATOR_SIZE_CLASSES_H_
#define CUHEAP_ALLOCATOR_SIZE_CLASSES_H_

#include <bit>
#include <cstddef>
#include <cstdint>

namespace cuheap {

inline constexpr std::size_t kBlockAlignment = 512;  // bytes

// There is no class from here on; the last one's blocks have 2^48 bytes.
inline constexpr std::uint32_t kSizeClasses = 4 * 38;

// The class of the smallest block that holds `bytes` (> 0, at most 2^48). Classes count from 0.
constexpr std::uint32_t SizeClassOf(std::size_t bytes) {
  const std::size_t units = (bytes - 1) / kBlockAlignment + 1;
  if (units <= 4) return static_cast<std::uint32_t>(units - 1);
  // units lies in (2^k, 2^(k+1)], cut in four steps of 2^(k-2).
  const int k = std::bit_width(units - 1) - 1;
  const std::size_t step = (units - 1 - (std::size_t{1} << k)) >> (k - 2);
  return static_cast<std::uint32_t>(4 * (k - 1) + static_cast<int>(step));
}

// Bytes of a block of the class (< kSizeClasses).
constexpr std::size_t SizeClassBytes(std::uint32_t size_class) {
  if (size_class < 4) return (size_class + 1) * kBlockAlignment;
  const std::uint32_t k = (size_class < kSizeClasses ? size_class : kSizeClasses - 1) / 4 + 1;
  const std::size_t step = size_class % 4 + 1;
  return ((std::size_t{1} << k) + (step << (k - 2))) * kBlockAlignment;
}

static_assert(SizeClassBytes(SizeClassOf(1)) == 512 && SizeClassBytes(SizeClassOf(2049)) == 2560);
static_assert(SizeClassBytes(kSizeClasses - 1) == std::size_t{1} << 48);
static_assert(SizeClassBytes(SizeClassOf(4097)) == 5120 &&
              SizeClassBytes(SizeClassOf(std::size_t{1} << 20)) == 1 << 20);

}  // namespace cuheap

#endif  // CUHEAP_ALLOCATOR_SIZE_CLASSES_H_
