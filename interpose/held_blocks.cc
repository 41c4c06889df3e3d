#include "interpose/held_blocks.h"

#include <memory>
#include <vector>

namespace cuheap {

CaptureWatch::Pin HeldBlocks::Hold(const PoolBlock& block) {
  // A slab goes back to the driver when all of it is free.
  const std::size_t bytes = block.packed ? 0 : block.segment_bytes;
  return Add({block.address, block.incarnation, block.context, /*in_stream=*/false, block.device, bytes});
}

CaptureWatch::Pin HeldBlocks::Hold(const StreamPoolBlock& block, std::uint64_t context) {
  return Add({block.address, block.incarnation, context, /*in_stream=*/true, block.device, 0});
}

CaptureWatch::Pin HeldBlocks::Add(const Facts& facts) {
  auto block = std::make_shared<Block>(this, facts);
  if (facts.device >= 0 && facts.device < kDevices) bytes_[facts.device] += facts.bytes;
  const std::lock_guard lock(mutex_);
  held_.insert(block.get());
  return block;
}

void HeldBlocks::Drop(Block* block) {
  {
    const std::lock_guard lock(mutex_);
    if (held_.erase(block) == 0) return;  // given up before
  }
  Unpin(block->facts);
}

void HeldBlocks::Unpin(const Facts& facts) {
  if (facts.device >= 0 && facts.device < kDevices) bytes_[facts.device] -= facts.bytes;
  if (facts.in_stream) {
    if (streams_ != nullptr) streams_->Unpin(facts.address, facts.incarnation, facts.context);
  } else if (pool_ != nullptr) {
    pool_->Unpin(facts.address, facts.incarnation);
  }
}

void HeldBlocks::ContextGone(std::uint64_t context) {
  const std::lock_guard lock(mutex_);
  for (Block* block : held_) {
    if (block->facts.context == context) block->facts.context = 0;
  }
}

std::size_t HeldBlocks::ReleaseAll() {
  std::vector<Facts> given;
  {
    const std::lock_guard lock(mutex_);  // a pin that ends now waits for it before its facts go
    for (const Block* block : held_) given.push_back(block->facts);
    held_.clear();
  }
  for (const Facts& facts : given) Unpin(facts);
  return given.size();
}

}  // namespace cuheap
