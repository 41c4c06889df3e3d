// Where blocks begin: a set of small numbers that answers "the largest element not above this one".
//
// Bitmaps over bitmaps: bit i of level k + 1 says that word i of level k is not 0. So 2^27 places (64 GiB in granules
// of 512 bytes) take three levels, and a look-up as many words. The lowest level is zero pages until it is written.
#ifndef CUHEAP_ALLOCATOR_BOUNDARY_MAP_H_
#define CUHEAP_ALLOCATOR_BOUNDARY_MAP_H_

#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <vector>

namespace cuheap {

// Threads: none of its own; the pool's lock guards it.
class BoundaryMap {
 public:
  // For numbers below `places` (> 0). May throw std::bad_alloc.
  explicit BoundaryMap(std::size_t places) {
    do {
      places = (places + 63) / 64;
      auto* words = static_cast<std::uint64_t*>(std::calloc(places, sizeof(std::uint64_t)));
      if (words == nullptr) throw std::bad_alloc();
      levels_.emplace_back(words);
    } while (places > 1);
  }

  void Set(std::size_t place) {
    for (const Words& words : levels_) {
      std::uint64_t& word = words.get()[place / 64];
      const bool was_empty = word == 0;
      word |= std::uint64_t{1} << (place % 64);
      if (!was_empty) return;
      place /= 64;
    }
  }
  void Clear(std::size_t place) {
    for (const Words& words : levels_) {
      std::uint64_t& word = words.get()[place / 64];
      word &= ~(std::uint64_t{1} << (place % 64));
      if (word != 0) return;
      place /= 64;
    }
  }
  bool Has(std::size_t place) const { return (levels_[0].get()[place / 64] >> (place % 64) & 1) != 0; }

  // The largest element that is at most `place`; empty if there is none.
  std::optional<std::size_t> AtOrBelow(std::size_t place) const {
    std::uint64_t upto = ~std::uint64_t{0} >> (63 - place % 64);  // with the place itself; above level 0 without
    for (std::size_t level = 0; level < levels_.size(); ++level) {
      const std::uint64_t below = levels_[level].get()[place / 64] & upto;
      if (below != 0) return Descend(level, place / 64 * 64 + Highest(below));
      place /= 64;
      upto = (std::uint64_t{1} << (place % 64)) - 1;
    }
    return std::nullopt;
  }

 private:
  struct Freer {
    void operator()(std::uint64_t* words) const { std::free(words); }
  };
  using Words = std::unique_ptr<std::uint64_t, Freer>;

  static std::size_t Highest(std::uint64_t word) { return static_cast<std::size_t>(63 - std::countl_zero(word)); }
  // From a bit of a level to the highest element below it.
  std::size_t Descend(std::size_t level, std::size_t place) const {
    while (level-- > 0) place = place * 64 + Highest(levels_[level].get()[place]);
    return place;
  }

  std::vector<Words> levels_;
};

}  // namespace cuheap

#endif  // CUHEAP_ALLOCATOR_BOUNDARY_MAP_H_
