#include "allocator/page_map.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <memory>
#include <new>

namespace cuheap {
namespace {

bool BaseBelow(const Segment* a, const Segment* b) { return a->base() < b->base(); }

}  // namespace

PageMap::~PageMap() {
  if (root_ == nullptr) return;
  for (std::size_t i = 0; i < std::size_t{1} << kRootBits; ++i) {
    if (root_[i] == nullptr) continue;
    for (std::size_t j = 0; j < std::size_t{1} << kLeafBits; ++j) {
      if (IsShared(root_[i][j])) delete &SharedOf(root_[i][j]);
    }
    std::free(root_[i]);
  }
  std::free(static_cast<void*>(root_));
}

PageMap::Entry* PageMap::EntryAt(std::size_t granule) const {
  if (root_ == nullptr) return nullptr;
  Entry* leaf = root_[granule >> kLeafBits];
  return leaf == nullptr ? nullptr : &leaf[granule & ((std::size_t{1} << kLeafBits) - 1)];
}

// Makes room for one more segment in the granule, so that entering it can't fail. Harmless if it is then not entered.
bool PageMap::Prepare(std::size_t granule) {
  if (root_ == nullptr) {
    root_ = static_cast<Entry**>(std::calloc(std::size_t{1} << kRootBits, sizeof(Entry*)));
    if (root_ == nullptr) return false;
  }
  Entry*& leaf = root_[granule >> kLeafBits];
  if (leaf == nullptr) {
    leaf = static_cast<Entry*>(std::calloc(std::size_t{1} << kLeafBits, sizeof(Entry)));
    if (leaf == nullptr) return false;
  }
  Entry* entry = EntryAt(granule);
  if (*entry == 0) return true;
  try {
    if (IsShared(*entry)) {
      Shared& shared = SharedOf(*entry);
      if (shared.size() == shared.capacity()) shared.reserve(2 * shared.size());
    } else {
      auto shared = std::make_unique<Shared>();
      shared->reserve(4);
      shared->push_back(SegmentOf(*entry));
      *entry = reinterpret_cast<Entry>(shared.release()) | kSharedBit;
    }
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

void PageMap::Tidy(Entry* entry) {
  if (!IsShared(*entry) || SharedOf(*entry).size() > 1) return;
  Shared* shared = &SharedOf(*entry);
  *entry = shared->empty() ? 0 : reinterpret_cast<Entry>(shared->front());
  delete shared;
}

bool PageMap::Insert(Segment* segment) {
  assert(FindOverlap(segment->base(), segment->bytes()) == nullptr);
  if (segment->base() >= kAddressLimit || segment->bytes() > kAddressLimit - segment->base()) return false;
  const std::size_t first = segment->base() >> kGranuleShift;
  const std::size_t last = (segment->end() - 1) >> kGranuleShift;
  for (std::size_t granule = first; granule <= last; ++granule) {
    if (Prepare(granule)) continue;
    for (std::size_t undo = first; undo <= granule; ++undo) {
      if (Entry* entry = EntryAt(undo); entry != nullptr) Tidy(entry);
    }
    return false;
  }
  for (std::size_t granule = first; granule <= last; ++granule) {
    Entry* entry = EntryAt(granule);
    if (IsShared(*entry)) {
      Shared& shared = SharedOf(*entry);
      shared.insert(std::upper_bound(shared.begin(), shared.end(), segment, BaseBelow), segment);
    } else {
      *entry = reinterpret_cast<Entry>(segment);
    }
  }
  return true;
}

void PageMap::Erase(Segment* segment) {
  const std::size_t first = segment->base() >> kGranuleShift;
  const std::size_t last = (segment->end() - 1) >> kGranuleShift;
  for (std::size_t granule = first; granule <= last; ++granule) {
    Entry* entry = EntryAt(granule);
    assert(entry != nullptr && *entry != 0);
    if (IsShared(*entry)) {
      Shared& shared = SharedOf(*entry);
      shared.erase(std::lower_bound(shared.begin(), shared.end(), segment, BaseBelow));
      Tidy(entry);
    } else {
      *entry = 0;
    }
  }
}

Segment* PageMap::Find(DeviceAddress address) const {
  if (address >= kAddressLimit) return nullptr;
  const Entry* entry = EntryAt(address >> kGranuleShift);
  if (entry == nullptr || *entry == 0) return nullptr;
  Segment* candidate;
  if (IsShared(*entry)) {
    const Shared& shared = SharedOf(*entry);
    auto after = std::upper_bound(shared.begin(), shared.end(), address,
                                  [](DeviceAddress a, const Segment* segment) { return a < segment->base(); });
    if (after == shared.begin()) return nullptr;
    candidate = *(after - 1);
  } else {
    candidate = SegmentOf(*entry);
  }
  return candidate->Contains(address) ? candidate : nullptr;
}

Segment* PageMap::FindOverlap(DeviceAddress base, std::size_t bytes) const {
  if (base >= kAddressLimit || bytes == 0) return nullptr;
  const DeviceAddress end = base + std::min<DeviceAddress>(bytes, kAddressLimit - base);
  const auto overlaps = [base, end](const Segment* segment) { return segment->base() < end && base < segment->end(); };
  for (std::size_t granule = base >> kGranuleShift; granule <= (end - 1) >> kGranuleShift; ++granule) {
    const Entry* entry = EntryAt(granule);
    if (entry == nullptr || *entry == 0) continue;
    if (!IsShared(*entry)) {
      if (overlaps(SegmentOf(*entry))) return SegmentOf(*entry);
      continue;
    }
    for (Segment* segment : SharedOf(*entry)) {
      if (overlaps(segment)) return segment;
    }
  }
  return nullptr;
}

}  // namespace cuheap
