// Work that is captured once and launched several times.
#include <algorithm>

#include "tests/campaigns/random/generator.h"

namespace cuheap::campaigns {

bool Generator::Graphs() {
  std::vector<std::int64_t> mine;
  for (const auto& [number, graph] : model_.graphs()) {
    if (model_.Free(graph, thread_)) mine.push_back(number);
  }
  const int dice = Between(0, 9);
  if (mine.empty() || dice < 2) return alone() && Capture(New('g'));
  const std::int64_t graph = OneOf(mine);
  if (dice < 9) return Launch(graph);
  for (const Moment launch : std::vector(model_.graphs().at(graph).launches)) OrderHostAfter(launch);
  return Emit(OpKind::kDestroyGraph, {graph});
}

bool Generator::Capture(std::int64_t graph) {
  const std::vector<std::int64_t> streams = MyStreams();
  if (streams.empty()) return false;
  const std::int64_t stream = OneOf(streams);
  std::vector<std::int64_t> blocks = MyBlocks();
  std::erase_if(blocks, [this](std::int64_t block) {
    return plans_[block].watched || !Block(block).defined || Block(block).bytes < 8 ||
           !model_.Accessible(Block(block), model_.current(thread_));
  });
  if (blocks.empty() || !Emit(OpKind::kBeginCapture, {stream, Between(0, 2)})) return false;
  std::vector<std::int64_t> own;
  for (int i = Between(1, 8); i > 0; --i) {
    const std::int64_t block = !own.empty() && Chance(0.4) ? OneOf(own) : OneOf(blocks);
    const auto bytes = static_cast<std::int64_t>(Block(block).bytes);
    switch (Between(0, 8)) {
      case 0:
        Emit(OpKind::kMemset, {block, 0, Value() & 0xFF, bytes, stream});
        break;
      case 1:
        Emit(OpKind::kFill, {stream, block, bytes / 8 * 4, Value(), bytes - bytes / 8 * 4});
        break;
      case 2: {
        const std::int64_t other = OneOf(blocks);
        Emit(OpKind::kDeviceToDevice,
             {block, other, std::min(bytes, static_cast<std::int64_t>(Block(other).bytes)), stream});
        break;
      }
      case 3: {
        const std::int64_t made = New('b');
        if (!Emit(OpKind::kAllocateAsync, {made, static_cast<std::int64_t>(PickSize()), stream})) break;
        Emit(OpKind::kMemset, {made, 0, Value() & 0xFF, static_cast<std::int64_t>(Block(made).bytes), stream});
        own.push_back(made);
        break;
      }
      case 4:  // meanwhile, elsewhere; only some modes allow it
        if (Emit(OpKind::kAllocate, {New('b'), static_cast<std::int64_t>(PickSize())})) {
          plans_[program_.ops.back().args[0]] = {stream, thread_, false};
        }
        break;
      case 5: {
        const std::int64_t victim = OneOf(blocks);
        if (Emit(OpKind::kFree, {victim})) std::erase(blocks, victim);
        if (blocks.empty()) i = 1;
        break;
      }
      default:
        Emit(OpKind::kAdd, {stream, block, 0, Value(), bytes});
        break;
    }
    if (blocks.empty()) break;
  }
  for (const std::int64_t block : own) Emit(OpKind::kFreeAsync, {block, stream});
  if (!Emit(OpKind::kEndCapture, {stream, graph})) return false;
  // What was allocated meanwhile is cleared, as everywhere.
  for (const std::int64_t block : MyBlocks()) {
    if (!Block(block).defined && Block(block).kind == MemoryKind::kDevice && EnterFor(block))
      Clear(block, PickStream());
  }
  return true;
}

bool Generator::Launch(std::int64_t graph) {
  const Graph& known = model_.graphs().at(graph);
  Enter(known.context);
  const std::int64_t stream = PickStream();
  for (const std::vector<Use>& uses : known.work) {
    for (const Use& use : uses) {
      if (!Block(use.block).live || plans_[use.block].owner != thread_ || plans_[use.block].watched) return false;
      if (!OrderAfter(stream, use.block, true)) return false;
    }
  }
  for (int i = Between(1, 3); i > 0; --i) {
    if (!Emit(OpKind::kLaunchGraph, {graph, stream})) return false;
  }
  return true;
}

}  // namespace cuheap::campaigns
