#include "allocator/segment.h"

#include <cassert>
#include <new>

namespace cuheap {

SegmentUsage& SegmentUsage::operator+=(const SegmentUsage& other) {
  reserved += other.reserved;
  active += other.active;
  requested += other.requested;
  quarantined += other.quarantined;
  ready += other.ready;
  pinned += other.pinned;
  tail += other.tail;
  idle += other.idle;
  waiting += other.waiting;
  return *this;
}

SegmentUsage& SegmentUsage::operator-=(const SegmentUsage& other) {
  reserved -= other.reserved;
  active -= other.active;
  requested -= other.requested;
  quarantined -= other.quarantined;
  ready -= other.ready;
  pinned -= other.pinned;
  tail -= other.tail;
  idle -= other.idle;
  waiting -= other.waiting;
  return *this;
}

bool SegmentOrder::operator()(const Segment* a, const Segment* b) const {
  return a->bytes() != b->bytes() ? a->bytes() < b->bytes() : a->base() < b->base();
}

bool SegmentOrder::operator()(const Segment* a, std::size_t bytes) const { return a->bytes() < bytes; }

std::unique_ptr<Segment> Segment::Create(DeviceAddress base, std::size_t bytes, std::size_t block_bytes, bool packed,
                                         std::uint32_t size_class) {
  assert(block_bytes > 0 && block_bytes <= bytes);
  std::unique_ptr<Segment> segment(new (std::nothrow) Segment());
  if (segment == nullptr) return nullptr;
  segment->base_ = base;
  segment->bytes_ = bytes;
  segment->block_bytes_ = block_bytes;
  segment->capacity_ = static_cast<std::uint32_t>(bytes / block_bytes);
  segment->packed_ = packed;
  segment->size_class_ = size_class;
  segment->blocks_.reset(static_cast<BlockRecord*>(std::calloc(segment->capacity_, sizeof(BlockRecord))));
  if (segment->blocks_ == nullptr) return nullptr;
  return segment;
}

SegmentUsage Segment::Usage() const {
  SegmentUsage usage;
  usage.reserved = bytes_;
  usage.active = live_ * block_bytes_;
  usage.requested = live_requested_;
  usage.quarantined = quarantined_ * block_bytes_;
  usage.pinned = (std::size_t{pinned_} + retired_) * block_bytes_;
  usage.ready = ready() * block_bytes_;
  usage.tail = bytes_ - capacity_ * block_bytes_;
  if (live_ == 0 && pinned_ == 0) (idle() ? usage.idle : usage.waiting) = ChargedBytes(bytes_);
  return usage;
}

std::uint32_t Segment::IndexOf(DeviceAddress address) const {
  assert(Contains(address));
  const std::size_t index = (address - base_) / block_bytes_;
  return index < capacity_ ? static_cast<std::uint32_t>(index) : capacity_;
}

std::uint32_t Segment::Take(std::size_t requested, std::uint64_t incarnation) {
  assert(ready() > 0 && requested <= block_bytes_);
  std::uint32_t index;
  if (first_ready_ != 0) {
    index = first_ready_ - 1;
    first_ready_ = blocks_.get()[index].next_ready;
  } else {
    index = untouched_++;
  }
  blocks_.get()[index] = {incarnation, requested, 0, BlockState::kLive, false, false};
  ++live_;
  live_requested_ += requested;
  return index;
}

void Segment::Quarantine(std::uint32_t index) {
  BlockRecord& record = blocks_.get()[index];
  assert(record.state == BlockState::kLive);
  record.state = BlockState::kQuarantined;
  --live_;
  live_requested_ -= record.requested;
  ++quarantined_;
}

void Segment::MakePinned(std::uint32_t index) {
  BlockRecord& record = blocks_.get()[index];
  assert(record.state == BlockState::kLive);
  record.state = BlockState::kPinned;
  --live_;
  live_requested_ -= record.requested;
  ++pinned_;
}

void Segment::Unpin(std::uint32_t index) {
  BlockRecord& record = blocks_.get()[index];
  assert(record.state == BlockState::kPinned);
  record.state = BlockState::kQuarantined;
  record.pinned = false;
  --pinned_;
  ++quarantined_;
}

void Segment::MakeReady(std::uint32_t index) {
  BlockRecord& record = blocks_.get()[index];
  assert(record.state == BlockState::kLive || record.state == BlockState::kQuarantined);
  if (record.state == BlockState::kLive) {
    --live_;
    live_requested_ -= record.requested;
  } else {
    --quarantined_;
  }
  if (record.exported) {
    record.state = BlockState::kRetired;
    ++retired_;
    return;
  }
  record.state = BlockState::kReady;
  record.next_ready = first_ready_;
  first_ready_ = index + 1;
}

}  // namespace cuheap
