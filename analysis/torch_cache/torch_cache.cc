#include "analysis/torch_cache/torch_cache.h"

#include <algorithm>

namespace cuheap::analysis {
namespace {

constexpr std::uint64_t kUnit = 512;                             // kMinBlockSize
constexpr std::uint64_t kMostSmall = std::uint64_t{1} << 20;     // kSmallSize
constexpr std::uint64_t kSmallSegment = std::uint64_t{2} << 20;  // kSmallBuffer
constexpr std::uint64_t kOwnSegment = std::uint64_t{10} << 20;   // kMinLargeAlloc
constexpr std::uint64_t kRoundLarge = std::uint64_t{2} << 20;
// More than any device has, so that an expandable segment is never too short. PyTorch reserves 9/8 of the device.
constexpr std::uint64_t kMost = std::uint64_t{1} << 44;

std::uint64_t RoundUp(std::uint64_t bytes, std::uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

std::uint32_t TorchCache::PoolOf(std::uint64_t bytes, std::uint32_t stream) {
  const std::uint32_t pool = 2 * stream + (bytes <= kMostSmall ? 0 : 1);
  if (pool >= pools_.size()) pools_.resize(pool + 1);
  return pool;
}

std::uint64_t TorchCache::PageOf(std::uint32_t pool) const {
  return IsSmall(pool) ? kSmallSegment : settings_.large_segment;
}

std::uint64_t TorchCache::SegmentFor(std::uint64_t bytes) const {
  if (bytes <= kMostSmall) return kSmallSegment;
  return bytes < kOwnSegment ? std::max(bytes, settings_.large_segment) : RoundUp(bytes, kRoundLarge);
}

bool TorchCache::Splits(const Node& node, std::uint64_t bytes) const {
  const std::uint64_t rest = node.bytes - bytes;
  if (IsSmall(node.pool) || settings_.expandable) return rest >= kUnit;
  return bytes < settings_.max_split && rest > kMostSmall;
}

// What an idle block could be without moving anything.
std::uint64_t TorchCache::Growable(std::uint32_t node) const {
  const std::uint32_t behind = nodes_[node].behind;
  const bool grows = behind != kNone && nodes_[behind].state == State::kUnmapped;
  return nodes_[node].bytes + (grows ? nodes_[behind].bytes : 0);
}

TorchCache::Handle TorchCache::Allocate(std::uint64_t bytes, std::uint32_t stream) {
  bytes = RoundUp(std::clamp(bytes, kUnit, kMost), kUnit);
  const std::uint32_t pool = PoolOf(bytes, stream);
  std::uint32_t node = FindIdle(pool, bytes);
  if (node == kNone) node = settings_.expandable ? GrowSegment(pool, bytes) : NewSegment(pool, bytes);
  const bool splits = Splits(nodes_[node], bytes);
  if (splits) Insert(Split(node, bytes, State::kIdle));
  took_whole_ = !splits && !IsSmall(pool);
  nodes_[node].state = State::kLive;
  allocated_ += nodes_[node].bytes;
  return node;
}

void TorchCache::Free(Handle tensor) {
  allocated_ -= nodes_[tensor].bytes;
  nodes_[tensor].state = State::kIdle;
  Join(tensor);
  Insert(tensor);
}

std::uint32_t TorchCache::FindIdle(std::uint32_t pool, std::uint64_t bytes) {
  absl::btree_set<BySize>& idle = pools_[pool].idle;
  auto found = idle.lower_bound({bytes, 0, 0});
  if (found == idle.end()) return kNone;
  if (settings_.expandable) {
    for (auto next = std::next(found);
         next != idle.end() && Growable(std::get<2>(*next)) < Growable(std::get<2>(*found)); ++next)
      found = next;
  }
  const std::uint64_t size = std::get<0>(*found);
  if (bytes < settings_.max_split && size >= settings_.max_split) return kNone;
  if (bytes >= settings_.max_split && size >= bytes + settings_.max_non_split_rounding) return kNone;
  const std::uint32_t node = std::get<2>(*found);
  idle.erase(found);
  return node;
}

std::uint32_t TorchCache::NewSegment(std::uint32_t pool, std::uint64_t bytes) {
  const std::uint64_t size = SegmentFor(bytes);
  Hold(size);
  Node node;
  node.address = next_address_;
  node.bytes = size;
  node.pool = pool;
  next_address_ += size;
  return NewNode(node);
}

std::uint32_t TorchCache::FindRoom(std::uint32_t pool, std::uint64_t bytes) {
  for (const auto& [address, unmapped] : pools_[pool].unmapped) {
    const std::uint32_t before = nodes_[unmapped].before;
    const std::uint32_t first = before != kNone && nodes_[before].state == State::kIdle ? before : unmapped;
    std::uint64_t room = 0;
    for (std::uint32_t node = first; node != kNone && nodes_[node].state != State::kLive && room < bytes;
         node = nodes_[node].behind)
      room += nodes_[node].bytes;
    if (room >= bytes) return first;
  }
  Node range;
  range.bytes = RoundUp(2 * kMost, PageOf(pool));
  range.address = RoundUp(next_address_, PageOf(pool));
  range.pool = pool;
  range.state = State::kUnmapped;
  next_address_ = range.address + range.bytes;
  const std::uint32_t node = NewNode(range);
  Insert(node);
  return node;
}

std::uint32_t TorchCache::GrowSegment(std::uint32_t pool, std::uint64_t bytes) {
  std::uint32_t node = FindRoom(pool, bytes);
  if (nodes_[node].state == State::kUnmapped) node = Map(node, bytes);
  while (nodes_[node].bytes < bytes) node = Map(nodes_[node].behind, bytes - nodes_[node].bytes);
  Erase(node);
  return node;
}

// Maps the first pages of an unmapped block, as many as hold so many bytes. Returns the idle block that they are in.
std::uint32_t TorchCache::Map(std::uint32_t node, std::uint64_t bytes) {
  Erase(node);
  const std::uint64_t mapped = std::min(nodes_[node].bytes, RoundUp(bytes, PageOf(nodes_[node].pool)));
  if (mapped < nodes_[node].bytes) Insert(Split(node, mapped, State::kUnmapped));
  nodes_[node].state = State::kIdle;
  Hold(mapped);
  Join(node);
  Insert(node);
  return node;
}

// Gives back the whole pages in an idle block, which is in its set.
void TorchCache::Unmap(std::uint32_t node) {
  const std::uint64_t page = PageOf(nodes_[node].pool);
  const std::uint64_t begin = nodes_[node].address, end = begin + nodes_[node].bytes;
  const std::uint64_t first = RoundUp(begin, page), last = end / page * page;
  if (first >= last) return;
  Erase(node);
  if (first > begin) {
    const std::uint32_t pages = Split(node, first - begin, State::kIdle);
    Insert(node);
    node = pages;
  }
  if (last < end) Insert(Split(node, last - first, State::kIdle));
  reserved_ -= last - first;
  nodes_[node].state = State::kUnmapped;
  Join(node);
  Insert(node);
}

void TorchCache::Empty() {
  std::vector<std::uint32_t> idle;
  for (std::uint32_t pool = 0; pool < pools_.size(); ++pool) {
    idle.clear();
    for (const BySize& entry : pools_[pool].idle) idle.push_back(std::get<2>(entry));
    for (const std::uint32_t node : idle) {
      if (settings_.expandable)
        Unmap(node);
      else
        Release(node);
    }
  }
}

void TorchCache::Release(std::uint32_t node) {
  if (nodes_[node].before != kNone || nodes_[node].behind != kNone) return;
  Erase(node);
  reserved_ -= nodes_[node].bytes;
  Drop(node);
}

std::uint32_t TorchCache::NewNode(const Node& node) {
  if (unused_.empty()) {
    nodes_.push_back(node);
    return static_cast<std::uint32_t>(nodes_.size() - 1);
  }
  const std::uint32_t index = unused_.back();
  unused_.pop_back();
  nodes_[index] = node;
  return index;
}

void TorchCache::Drop(std::uint32_t node) { unused_.push_back(node); }

// Cuts a block that is in no set. Returns the new one behind it, which is in none either.
std::uint32_t TorchCache::Split(std::uint32_t node, std::uint64_t bytes, State rest) {
  Node behind = nodes_[node];
  behind.address += bytes;
  behind.bytes -= bytes;
  behind.before = node;
  behind.state = rest;
  const std::uint32_t index = NewNode(behind);
  if (behind.behind != kNone) nodes_[behind.behind].before = index;
  nodes_[node].bytes = bytes;
  nodes_[node].behind = index;
  return index;
}

void TorchCache::Join(std::uint32_t node) {
  const std::uint32_t before = nodes_[node].before, behind = nodes_[node].behind;
  if (before != kNone && nodes_[before].state == nodes_[node].state) {
    Erase(before);
    nodes_[node].address = nodes_[before].address;
    nodes_[node].bytes += nodes_[before].bytes;
    nodes_[node].before = nodes_[before].before;
    if (nodes_[node].before != kNone) nodes_[nodes_[node].before].behind = node;
    Drop(before);
  }
  if (behind != kNone && nodes_[behind].state == nodes_[node].state) {
    Erase(behind);
    nodes_[node].bytes += nodes_[behind].bytes;
    nodes_[node].behind = nodes_[behind].behind;
    if (nodes_[node].behind != kNone) nodes_[nodes_[node].behind].before = node;
    Drop(behind);
  }
}

void TorchCache::Insert(std::uint32_t node) {
  const Node& of = nodes_[node];
  if (of.state == State::kUnmapped)
    pools_[of.pool].unmapped.insert({of.address, node});
  else
    pools_[of.pool].idle.insert({of.bytes, of.address, node});
}

void TorchCache::Erase(std::uint32_t node) {
  const Node& of = nodes_[node];
  if (of.state == State::kUnmapped)
    pools_[of.pool].unmapped.erase({of.address, node});
  else
    pools_[of.pool].idle.erase({of.bytes, of.address, node});
}

}  // namespace cuheap::analysis
