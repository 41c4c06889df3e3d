#include "analysis/reports/peak_parts.h"

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>

namespace cuheap::analysis {
namespace {

constexpr std::uint64_t kLargePinned = std::uint64_t{64}
                                       << 20;  // smaller ones are powers of two by choice often enough

void Add(PartBytes& sum, const Block& block) {
  sum.bytes += block.bytes;
  ++sum.blocks;
}

void Sort(std::vector<PartBytes>& parts) {
  std::sort(parts.begin(), parts.end(), [](const PartBytes& a, const PartBytes& b) {
    return std::tie(b.bytes, a.kind, a.name) < std::tie(a.bytes, b.kind, b.name);
  });
}

}  // namespace

void PeakParts::Fill(const std::vector<const Block*>& at_peak, ScopeTotals& totals) const {
  std::map<std::uint32_t, PartBytes> by_stack;
  std::map<Lifetime, PartBytes> by_lifetime;
  for (const Block* block : at_peak) {
    Add(by_stack[block->stack], *block);
    Add(by_lifetime[lifetimes_.Of(*block)], *block);
  }
  for (const Block* block : at_peak) {
    if (!totals.scope.host || block->bytes < kLargePinned || !std::has_single_bit(block->bytes)) continue;
    totals.powers_of_two.bytes += block->bytes;
    ++totals.powers_of_two.blocks;
  }
  std::map<Owner, PartBytes> by_owner;
  for (const auto& [stack, sum] : by_stack) {
    PartBytes& owner = by_owner[OwnerOf(lines_, stack)];
    owner.bytes += sum.bytes;
    owner.blocks += sum.blocks;
  }
  for (auto& [owner, sum] : by_owner) {
    sum.kind = Word(owner.kind);
    sum.name = owner.name;
    totals.peak_by_library.push_back(std::move(sum));
  }
  Sort(totals.peak_by_library);
  for (auto& [lifetime, sum] : by_lifetime) {
    sum.kind = Word(lifetime);
    sum.name = Phrase(lifetime);
    totals.peak_by_lifetime.push_back(std::move(sum));
  }
}

}  // namespace cuheap::analysis
