#include "analysis/reports/ran_out.h"

#include <algorithm>
#include <string>
#include <unordered_set>

namespace cuheap::analysis {
namespace {

constexpr std::uint32_t kFirstPasses = 2;
constexpr std::uint32_t kMostLayers = 200;  // that one line of a model calls

bool HeldAt(const Block& block, std::uint64_t position) {
  return block.allocated_at < position && block.freed_at > position;
}

}  // namespace

RanOut::RanOut(const Snapshot& snapshot, const Blocks& blocks, const LineTable& lines, const FrameworkStacks& stacks)
    : snapshot_(snapshot), blocks_(blocks), lines_(lines), stacks_(stacks) {
  const Events& events = snapshot.events;
  bool died = snapshot.completeness.exit_status.value_or(0) != 0 || snapshot.completeness.exit_signal.has_value();
  for (std::size_t i = 0; i < events.size() && !died; ++i) {
    died = events.type[i] == EventType::kFrameworkOutOfMemory ||
           (events.type[i] == EventType::kAllocateFailed && events.result[i] == kOutOfMemoryResult);
  }
  if (!died) return;
  bool before_window = false;  // what happened then is not known, but it was much
  for (const Block& block : blocks.program) {
    if (!block.framework_tensor()) continue;
    tensors_.push_back(&block);
    before_window = before_window || block.allocated_at == 0;
  }
  std::sort(tensors_.begin(), tensors_.end(),
            [](const Block* a, const Block* b) { return a->allocated_at < b->allocated_at; });
  cut_short_ = !tensors_.empty() && !before_window && snapshot.completeness.events_complete();
  if (cut_short_) CountPasses();
}

TensorRole RanOut::RoleOf(std::uint32_t stack) const {
  switch (FrameworkStacks::PartOf(stacks_.Of(stack))) {
    case FrameworkStacks::Part::kOptimizer:
      return TensorRole::kOptimizerState;
    case FrameworkStacks::Part::kBackward:
      return TensorRole::kGradients;
    case FrameworkStacks::Part::kForward:
    case FrameworkStacks::Part::kReckoning:
      return TensorRole::kActivations;
    case FrameworkStacks::Part::kSetup:
      return TensorRole::kWeights;
    case FrameworkStacks::Part::kData:
    case FrameworkStacks::Part::kUnknown:
      break;
  }
  return TensorRole::kOther;
}

RanOut::Key RanOut::KeyOf(std::uint32_t stack) const {
  const TensorRole role = RoleOf(stack);
  switch (role) {
    case TensorRole::kOptimizerState:
      return {role, stacks_.Of(stack).optimizer_caller};
    case TensorRole::kGradients:
      return {role, 0};
    case TensorRole::kActivations: {
      const std::vector<std::uint32_t>& callers = lines_.CallersOfStack(stack);
      const std::size_t entry = lines_.EntryOfStack(stack);
      return {role, entry == 0 || entry > callers.size() ? lines_.OfStack(stack) : callers[entry - 1]};
    }
    case TensorRole::kWeights:
    case TensorRole::kOther:
      break;
  }
  return {role, lines_.OfStack(stack)};
}

void RanOut::CountPasses() {
  const Key* current = nullptr;
  std::unordered_map<std::uint32_t, std::uint32_t> of_stack;
  for (const Block* tensor : tensors_) {
    const auto entry = passes_.try_emplace(KeyOf(tensor->stack)).first;
    if (current == nullptr || *current != entry->first) {
      ++entry->second.count;
      of_stack.clear();
    }
    entry->second.by_module = entry->second.by_module || stacks_.Of(tensor->stack).module_call;
    entry->second.most_of_a_stack = std::max(entry->second.most_of_a_stack, ++of_stack[tensor->stack]);
    current = &entry->first;
  }
}

bool RanOut::Passes::AtFirst(TensorRole role) const {
  return count <= kFirstPasses && (role != TensorRole::kActivations || most_of_a_stack <= kMostLayers);
}

bool RanOut::MadeAtFirst(std::uint32_t stack) const {
  const auto found = passes_.find(KeyOf(stack));
  if (found == passes_.end() || found->first.first == TensorRole::kOther) return false;
  if (found->first.first == TensorRole::kActivations && !found->second.by_module) return false;
  return found->second.AtFirst(found->first.first);
}

bool RanOut::Early() const {
  return std::all_of(passes_.begin(), passes_.end(), [](const auto& entry) {
    return entry.first.first == TensorRole::kOther || entry.second.AtFirst(entry.first.first);
  });
}

void RanOut::DropInventedSteps(Steps& steps) const {
  if (!cut_short_ || (steps.source != StepSource::kAllocation && steps.source != StepSource::kSynchronization)) return;
  if (MadeAtFirst(steps.stack)) steps = {};
}

void RanOut::DropFirstPasses(std::vector<LeakFinding>& findings) const {
  if (!cut_short_) return;
  std::erase_if(findings, [](const LeakFinding& finding) {
    return finding.leak_class == LeakClass::kFreedAtEnd && finding.from_pytorch &&
           finding.kind != AllocationKind::kTensor;
  });
  for (LeakFinding& finding : findings) {
    if (finding.leak_class != LeakClass::kLeak || !finding.from_pytorch || finding.stacks.empty()) continue;
    const bool first = std::all_of(finding.stacks.begin(), finding.stacks.end(),
                                   [&](const StackShare& share) { return MadeAtFirst(share.stack); });
    if (!first) continue;
    finding.leak_class = LeakClass::kHeld;
    finding.shape = GrowthShape::kOnce;
    finding.cause = LeakCause::kNone;
    finding.bytes_per_step = finding.slope_bytes_per_step = 0;
    finding.parts.clear();
    finding.companions.clear();
  }
  std::stable_sort(findings.begin(), findings.end(),
                   [](const LeakFinding& a, const LeakFinding& b) { return a.leak_class < b.leak_class; });
}

void RanOut::DropGrowth(std::vector<CacheGrowth>& caches) const {
  if (!cut_short_ || !Early()) return;
  for (CacheGrowth& cache : caches) cache.growing = false;
}

void RanOut::Explain(const Steps& steps, const std::vector<LeakFinding>& findings, std::vector<Failure>& failures,
                     std::vector<FrameworkCache>& caches) const {
  if (!cut_short_) return;
  for (Failure& failure : failures) {
    if (failure.result != kOutOfMemoryResult || failure.scope.host) continue;
    failure.context = ContextAt(failure.scope.device, failure.first_position, failure.first_ns, failure.stack,
                                failure.figures.request, steps, findings);
  }
  for (FrameworkCache& cache : caches) {
    for (FrameworkRefusal& refusal : cache.refusals) {
      refusal.context =
          ContextAt(refusal.device, refusal.position, refusal.time_ns, refusal.stack, refusal.request, steps, findings);
    }
  }
}

OomContext RanOut::ContextAt(std::uint32_t device, std::uint64_t position, std::int64_t time_ns, std::uint32_t stack,
                             std::uint64_t request, const Steps& steps,
                             const std::vector<LeakFinding>& findings) const {
  OomContext context;
  std::unordered_set<std::uint32_t> leaking;  // stacks
  for (const LeakFinding& finding : findings) {
    if (finding.leak_class != LeakClass::kLeak) continue;
    for (const StackShare& share : finding.stacks) leaking.insert(share.stack);
  }
  std::vector<const Block*> live;
  for (const Block* tensor : tensors_) {
    if (tensor->device != device || !HeldAt(*tensor, position)) continue;
    live.push_back(tensor);
    context.bytes[static_cast<std::size_t>(RoleOf(tensor->stack))] += tensor->bytes;
    if (leaking.contains(tensor->stack)) context.leaked_bytes += tensor->bytes;
  }
  if (live.empty()) return context;
  if (2 * context.leaked_bytes >= context.all()) {
    context.cause = OomCause::kLeaks;
    return context;
  }
  const TensorRole role = RoleOf(stack);
  if (role == TensorRole::kOptimizerState) {
    context.cause = OomCause::kOptimizer;
    context.adam = InAdam(stack);
  } else if (role == TensorRole::kWeights) {
    context.cause = OomCause::kWeights;
  } else if (steps.count() >= 2 && steps.StepOf(time_ns) > 2) {
    MeasureStep(context, live, steps.boundaries_ns[std::min(steps.StepOf(time_ns) - 1, steps.count()) - 1]);
    context.finished_bytes = LargestFinished(device, steps);
    if (context.step_bytes + request >= 2 * context.finished_bytes &&
        2 * (context.step_bytes + request) >= context.all() + request)
      context.cause = OomCause::kLastStep;
  } else if (Early() && role != TensorRole::kOther) {
    MeasureStep(context, live, kBeforeWindow);
    context.cause = OomCause::kFirstStep;
    context.step_done = std::any_of(tensors_.begin(), tensors_.end(), [&](const Block* tensor) {
      return tensor->allocated_at < position && RoleOf(tensor->stack) == TensorRole::kOptimizerState;
    });
  }
  return context;
}

// What the step has live and whose most of it is; weights and optimizer state belong to no step.
void RanOut::MeasureStep(OomContext& context, const std::vector<const Block*>& live, std::int64_t begin_ns) const {
  std::map<std::uint32_t, std::uint64_t> by_line;
  for (const Block* tensor : live) {
    const TensorRole role = RoleOf(tensor->stack);
    if (tensor->allocated_ns <= begin_ns || role == TensorRole::kWeights || role == TensorRole::kOptimizerState)
      continue;
    context.step_bytes += tensor->bytes;
    std::uint64_t& bytes = by_line[lines_.OfStack(tensor->stack)] += tensor->bytes;
    if (bytes > context.line_bytes) context.line_bytes = bytes, context.line = lines_.OfStack(tensor->stack);
  }
}

// Step 1 holds the set-up as well.
std::uint64_t RanOut::LargestFinished(std::uint32_t device, const Steps& steps) const {
  struct Change {
    std::uint64_t at = 0;
    bool freed = false;
    std::uint32_t step = 0;
    std::uint64_t bytes = 0;
  };
  std::vector<Change> changes;
  for (const Block* tensor : tensors_) {
    const std::uint32_t step = steps.StepOf(tensor->allocated_ns);
    if (tensor->device != device || step < 2 || step > steps.count()) continue;
    changes.push_back({tensor->allocated_at, false, step, tensor->bytes});
    changes.push_back({tensor->freed_at, true, step, tensor->bytes});
  }
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.at < b.at; });
  std::map<std::uint32_t, std::uint64_t> live;
  std::uint64_t most = 0;
  for (const Change& change : changes) {
    std::uint64_t& sum = live[change.step];
    sum = change.freed ? sum - change.bytes : sum + change.bytes;
    most = std::max(most, sum);
  }
  return most;
}

bool RanOut::InAdam(std::uint32_t stack) const {
  if (stack >= snapshot_.stacks.size()) return false;
  const std::vector<std::uint32_t>& frames = snapshot_.stacks[stack].frames;
  return std::any_of(frames.begin(), frames.end(), [&](std::uint32_t frame) {
    return frame < snapshot_.frames.size() &&
           snapshot_.strings[snapshot_.frames[frame].file].find("/torch/optim/adam") != std::string::npos;
  });
}

}  // namespace cuheap::analysis
