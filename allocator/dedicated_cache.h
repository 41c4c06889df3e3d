// The ready dedicated segments of one context, by size.
#ifndef CUHEAP_ALLOCATOR_DEDICATED_CACHE_H_
#define CUHEAP_ALLOCATOR_DEDICATED_CACHE_H_

#include <cstddef>

#include "allocator/segment.h"

namespace cuheap {

// Threads: none of its own; the pool's lock guards it. Owns no segment. O(log n), no allocation after Adopt.
class DedicatedCache {
 public:
  // The largest segment that may serve a request: 12.5 % more than it asks for.
  static std::size_t LargestFit(std::size_t bytes) {
    const std::size_t slack = bytes / 8;
    return bytes > SIZE_MAX - slack ? SIZE_MAX : bytes + slack;
  }

  // Makes the segment's tree node; may throw std::bad_alloc. To be called once, before the segment is first inserted.
  static void Adopt(Segment* segment) {
    SegmentSet set;
    set.insert(segment);
    segment->cache_node = set.extract(set.begin());
  }

  // REQUIRES: adopted, not in a cache.
  void Insert(Segment* segment) { segments_.insert(std::move(segment->cache_node)); }
  // REQUIRES: in this cache.
  void Remove(Segment* segment) { segment->cache_node = segments_.extract(segment); }
  bool Contains(Segment* segment) const { return segments_.contains(segment); }

  // The smallest segment (the lowest address among equals) that serves `bytes` within the limit, or null.
  Segment* FindFit(std::size_t bytes) const {
    const auto found = segments_.lower_bound(bytes);
    return found != segments_.end() && (*found)->bytes() <= LargestFit(bytes) ? *found : nullptr;
  }

  SegmentSet::const_iterator begin() const { return segments_.begin(); }
  SegmentSet::const_iterator end() const { return segments_.end(); }

 private:
  SegmentSet segments_;
};

}  // namespace cuheap

#endif  // CUHEAP_ALLOCATOR_DEDICATED_CACHE_H_
