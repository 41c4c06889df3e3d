#include "analysis/reports/replacers.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace cuheap::analysis {
namespace {

constexpr std::uint64_t kTensorSlack = std::uint64_t{1} << 20;

struct Moment {
  std::uint64_t at = 0;
  const Block* made = nullptr;  // one of the two
  const Block* freed = nullptr;
};

using Size = std::tuple<AllocationKind, std::uint32_t, std::uint64_t>;  // kind, device, bytes

}  // namespace

std::unordered_map<const Block*, std::uint64_t> FindReplacers(const std::vector<const Block*>& unknown,
                                                              const std::vector<const Block*>& kept) {
  std::unordered_map<const Block*, std::uint64_t> result;
  if (unknown.empty()) return result;
  std::vector<Moment> moments;
  for (const Block* block : kept) {
    if (block->allocated_at != 0 && block->freed_at == kNoPosition)
      moments.push_back({block->allocated_at, block, nullptr});
  }
  for (const Block* block : unknown) moments.push_back({block->freed_at, nullptr, block});
  std::sort(moments.begin(), moments.end(), [](const Moment& a, const Moment& b) { return a.at < b.at; });
  std::map<Size, std::vector<const Block*>> waiting;  // those that have replaced nothing yet, the youngest last
  for (const Moment& moment : moments) {
    if (moment.made != nullptr) {
      waiting[{moment.made->kind, moment.made->device, moment.made->bytes}].push_back(moment.made);
      continue;
    }
    const Block& old = *moment.freed;
    const std::uint64_t largest = old.bytes + (old.is_tensor() ? kTensorSlack : 0);
    auto youngest = waiting.end();
    for (auto size = waiting.lower_bound({old.kind, old.device, old.bytes});
         size != waiting.end() && size->first <= Size{old.kind, old.device, largest}; ++size) {
      if (youngest == waiting.end() || size->second.back()->allocated_at > youngest->second.back()->allocated_at)
        youngest = size;
    }
    if (youngest == waiting.end()) continue;
    result.emplace(youngest->second.back(), old.bytes);
    youngest->second.pop_back();
    if (youngest->second.empty()) waiting.erase(youngest);
  }
  return result;
}

}  // namespace cuheap::analysis
