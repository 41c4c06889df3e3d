#include "analysis/reports/live_trend.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <set>

#include "analysis/reports/block_changes.h"

namespace cuheap::analysis {
namespace {

constexpr std::size_t kWindows = 8;
constexpr std::ptrdiff_t kFewestBetween = 4;  // blocks
constexpr std::size_t kFewestChanges = 64;    // of the line: four in each window

using Minima = std::array<std::int64_t, kWindows>;

// Of 28 pairs of windows; by chance 20 more go up than down once in a hundred times. A leak of few blocks leaves many
// windows alike, but none lower than one before.
bool Rises(const Minima& minima) {
  constexpr int kClearlyMore = 20;
  constexpr std::size_t kFewestLevels = 3;
  int up = 0, down = 0;
  for (std::size_t i = 0; i < kWindows; ++i) {
    for (std::size_t j = i + 1; j < kWindows; ++j) {
      up += minima[j] > minima[i] ? 1 : 0;
      down += minima[j] < minima[i] ? 1 : 0;
    }
  }
  if (minima.back() <= minima[kWindows / 2 - 1]) return false;  // filled up by then
  const std::set<std::int64_t> levels(minima.begin(), minima.end());
  return up - down >= kClearlyMore || (down == 0 && levels.size() >= kFewestLevels);
}

// What changes the number of live blocks in the window: what is kept counts as not freed.
class Changes {
 public:
  Changes(const std::vector<const Block*>& all, const std::vector<const Block*>& kept)
      : all_(all), kept_(kept.begin(), kept.end()) {
    std::sort(kept_.begin(), kept_.end(), std::less<>());
    for (const Block* block : all) count_ += (block->allocated_at != 0 ? 1u : 0u) + (Frees(*block) ? 1u : 0u);
  }

  std::size_t size() const { return count_; }
  // The block's free is one of them.
  bool Frees(const Block& block) const {
    return block.freed_at != kNoPosition && !std::binary_search(kept_.begin(), kept_.end(), &block, std::less<>());
  }
  // visit(position, sign, bytes)
  template <typename Visit>
  void ForEach(Visit visit) const {
    const auto in_window = [&](const Block& block) { return block.allocated_at != 0 || Frees(block); };
    ForEachChange(all_, in_window, [&](const Block& block, bool allocation) {
      if (allocation ? block.allocated_at == 0 : !Frees(block)) return;
      visit(allocation ? block.allocated_at : block.freed_at, allocation ? 1 : -1,
            static_cast<std::int64_t>(block.bytes));
    });
  }

 private:
  const std::vector<const Block*>& all_;
  std::vector<const Block*> kept_;
  std::size_t count_ = 0;
};

// Whether most of what was kept in the second half may well be freed yet: as many blocks as are kept became as old
// before they were freed.
bool MayBeFreedYet(const std::vector<const Block*>& all, const std::vector<const Block*>& kept, const Changes& changes,
                   std::uint64_t half, std::uint64_t end) {
  std::vector<std::uint64_t> ages;  // at which they were freed
  for (const Block* block : all) {
    if (block->allocated_at != 0 && changes.Frees(*block)) ages.push_back(block->freed_at - block->allocated_at);
  }
  if (ages.empty()) return false;
  const auto oldest = ages.begin() + static_cast<std::ptrdiff_t>(std::min(ages.size(), kept.size()) - 1);
  std::nth_element(ages.begin(), oldest, ages.end(), std::greater<>());
  std::size_t late = 0, young = 0;
  for (const Block* block : kept) {
    if (block->allocated_at < half) continue;
    ++late;
    young += end - block->allocated_at <= *oldest ? 1 : 0;
  }
  return late != 0 && 4 * young >= 3 * late;
}

}  // namespace

bool IsBounded(const std::vector<const Block*>& all, const std::vector<const Block*>& kept) {
  if (4 * (all.size() - std::min(all.size(), kept.size())) < all.size()) return false;
  const Changes changes(all, kept);
  if (changes.size() < kFewestChanges) return false;
  Minima blocks, bytes;
  blocks.fill(std::numeric_limits<std::int64_t>::max());
  bytes.fill(std::numeric_limits<std::int64_t>::max());
  const std::size_t half = changes.size() / 2, window_size = (changes.size() - half) / kWindows;
  std::uint64_t half_at = 0, begin_at = 0, end_at = 0, last_at = 0;  // positions of changes
  std::int64_t live_blocks = 0, live_bytes = 0;
  std::size_t i = 0;
  changes.ForEach([&](std::uint64_t at, int sign, std::int64_t change) {
    live_blocks += sign;
    live_bytes += sign * change;
    if (i == half) half_at = at;
    if (i == half + window_size) begin_at = at;
    if (i == changes.size() - 1 - window_size) end_at = at;
    last_at = at;
    if (i >= half) {
      const std::size_t window = (i - half) * kWindows / (changes.size() - half);
      blocks[window] = std::min(blocks[window], live_blocks);
      bytes[window] = std::min(bytes[window], live_bytes);
    }
    ++i;
  });
  if (Rises(blocks) && Rises(bytes)) return false;
  // Had those been leaked that were allocated from the second window to the last but one, it would have risen by them.
  const auto between = std::count_if(kept.begin(), kept.end(), [&](const Block* block) {
    return block->allocated_at >= begin_at && block->allocated_at < end_at;
  });
  if (between >= kFewestBetween && blocks.back() <= blocks.front()) return true;
  return MayBeFreedYet(all, kept, changes, half_at, last_at);
}

bool HeldAsMuchBefore(const std::vector<const Block*>& all, const std::vector<const Block*>& kept) {
  std::uint64_t first = kNoPosition;
  std::int64_t kept_bytes = 0;
  for (const Block* block : kept) {
    first = std::min(first, std::uint64_t{block->allocated_at});
    kept_bytes += static_cast<std::int64_t>(block->bytes);
  }
  std::int64_t blocks = 0, bytes = 0, most_blocks = 0, most_bytes = 0;
  Changes(all, kept).ForEach([&](std::uint64_t at, int sign, std::int64_t change) {
    if (at >= first) return;
    blocks += sign;
    bytes += sign * change;
    most_blocks = std::max(most_blocks, blocks);
    most_bytes = std::max(most_bytes, bytes);
  });
  return most_blocks >= static_cast<std::int64_t>(kept.size()) && most_bytes >= kept_bytes;
}

bool AreNewest(const std::vector<const Block*>& all, const std::vector<const Block*>& blocks) {
  if (all.size() <= blocks.size() || 2 * blocks.size() > all.size()) return false;
  return std::equal(blocks.begin(), blocks.end(), all.end() - static_cast<std::ptrdiff_t>(blocks.size()));
}

bool AreFewOfTheLast(const std::vector<const Block*>& all, const std::vector<const Block*>& blocks) {
  const auto tenth = static_cast<std::ptrdiff_t>(all.size() / 10);
  return blocks.size() <= 3 && std::find(all.end() - tenth, all.end(), blocks.front()) != all.end();
}

std::uint64_t FreedUnknown(const std::vector<const Block*>& unknown, const std::vector<const Block*>& kept) {
  const Block& first = *kept.front();
  std::uint64_t bytes = 0;
  for (const Block* block : unknown) {
    if (block->freed_ns >= first.allocated_ns && block->kind == first.kind && block->device == first.device)
      bytes += block->bytes;
  }
  return bytes;
}

}  // namespace cuheap::analysis
