#include "analysis/reports/advice.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "analysis/reports/framework_frames.h"
#include "analysis/reports/ran_out_text.h"
#include "analysis/reports/text_format.h"

namespace cuheap::analysis {
namespace {

std::string Human(std::uint64_t bytes) { return HumanBytes(static_cast<double>(bytes)); }

std::string_view FreeCall(AllocationKind kind) {
  switch (kind) {
    case AllocationKind::kStreamOrdered:
    case AllocationKind::kFromPool:
      return "cudaFreeAsync";
    case AllocationKind::kArray:
      return "cudaFreeArray";
    case AllocationKind::kMipmappedArray:
      return "cudaFreeMipmappedArray";
    case AllocationKind::kVirtual:
    case AllocationKind::kHostVirtual:
      return "cuMemUnmap and cuMemRelease";
    case AllocationKind::kHostPinned:
      return "cudaFreeHost";
    case AllocationKind::kHostRegistered:
      return "cudaHostUnregister";
    case AllocationKind::kModuleData:
      return "cuModuleUnload";
    default:
      return "cudaFree";
  }
}

struct Keeper {
  std::string_view call;  // "push_back"
  std::string line;       // "train.cc:57" of the caller; empty: not known
};

// The innermost call outside the charged line that puts something into a container.
std::optional<Keeper> KeeperOf(const Report& report, const LeakFinding& finding) {
  constexpr std::array<std::string_view, 7> kCalls = {"push_back",   "emplace_back",     "push_front", "emplace_front",
                                                      "try_emplace", "insert_or_assign", "emplace"};
  if (finding.stacks.empty()) return std::nullopt;
  const Snapshot& snapshot = *report.snapshot;
  const std::uint32_t stack = finding.stacks.front().stack;
  if (stack == 0 || stack >= snapshot.stacks.size()) return std::nullopt;
  const std::vector<std::uint32_t>& frames = snapshot.stacks[stack].frames;
  std::optional<Keeper> keeper;
  for (std::size_t i = report.lines.PositionInStack(stack); i < frames.size(); ++i) {
    const Frame& frame = snapshot.frames[frames[i]];
    const std::string name = ShortFunction(snapshot.strings[frame.function], 200);
    std::string last = name.substr(name.rfind(':') == std::string::npos ? 0 : name.rfind(':') + 1);
    last = last.substr(0, last.find('<'));
    if (last == "_M_realloc_insert" || last == "_M_realloc_append") last = "push_back";  // of which it is the slow half
    const auto call = std::find(kCalls.begin(), kCalls.end(), last);
    if (call != kCalls.end() && name.find("::") != std::string::npos) {
      keeper = Keeper{*call, ""};
    } else if (keeper && frame.file != 0 && !IsSystemSource(snapshot.strings[frame.file])) {
      const std::string& file = snapshot.strings[frame.file];
      keeper->line = file.substr(file.rfind('/') + 1) + ":" + std::to_string(frame.line);
      break;
    }
  }
  return keeper;
}

std::string ForEveryStep(const Report& report, const LeakFinding& finding, const std::string& free_call) {
  if (finding.line_frees == 0) {
    return "No block of this line is ever freed: " + free_call +
           " it when the step ends, or allocate it once before the loop and use it again.";
  }
  if (report.lines.line(finding.line).basis != LineBasis::kLine) {
    return "Some of its allocations are freed and some are not; which ones is seen only with source lines (build with "
           "-g).";
  }
  return "The line frees " + Grouped(finding.line_frees) + " of its " + Grouped(finding.line_allocations) +
         " blocks, so the free is there but misses one a step: is a pointer overwritten before it is freed?";
}

// A model's forward pass asked: a line of the user's in it, or layers of PyTorch's own below the charged line.
bool InModel(const Report& report, std::uint32_t stack) {
  const Snapshot& snapshot = *report.snapshot;
  if (stack >= snapshot.stacks.size()) return false;
  if (report.lines.EntryOfStack(stack) != 0) return true;
  const std::vector<std::uint32_t>& frames = snapshot.stacks[stack].frames;
  const auto end =
      frames.begin() + static_cast<std::ptrdiff_t>(std::min(frames.size(), report.lines.PositionInStack(stack)));
  return std::any_of(frames.begin(), end, [&](std::uint32_t index) {
    const Frame& frame = snapshot.frames[index];
    return frame.kind == FrameKind::kPython &&
           IsModuleCall(snapshot.strings[frame.function], snapshot.strings[frame.file]);
  });
}

std::string ForTensors(const Report& report, const LeakFinding& finding) {
  switch (finding.cause) {
    case LeakCause::kGraph:
      return "Something holds a tensor with a grad_fn, and with it all that the forward pass saved: a running sum of "
             "losses, a list of losses or outputs, a state carried from step to step? Add loss.item() (or "
             "loss.detach()) instead, detach() the state (h = h.detach()), and evaluate under torch.no_grad().";
    case LeakCause::kScalar:
      return "A loss or metric is kept as a tensor each time: keep loss.item(), or loss.detach().cpu() every now and "
             "then.";
    case LeakCause::kGradient:
      return "Copies or references of gradients are collected (p.grad in a list, retain_grad(), a tensor hook)? Keep "
             "norms as numbers, and let zero_grad(set_to_none=True) free the rest.";
    case LeakCause::kOptimizerState:
      return "A new optimizer makes new state while the old one is still held: make the optimizer once, before the "
             "loop, or drop every reference to the old one.";
    case LeakCause::kTensor:
    case LeakCause::kNone:
      break;
  }
  if (!finding.stacks.empty() && InModel(report, finding.stacks.front().stack)) {
    return "Activations of the model are collected: in a list, a dict or by a forward hook? Keep x.detach().cpu() or "
           "what is reckoned from it, empty the list when the step ends, remove hooks (handle.remove()).";
  }
  return "Tensors of this line are collected: in a list, a dict, a closure? Keep numbers (x.item()) or "
         "x.detach().cpu(), and empty or bound what collects them.";
}

std::string ForLeak(const Report& report, const LeakFinding& finding) {
  const std::string free_call(FreeCall(finding.kind));
  if (finding.from_pytorch) return ForTensors(report, finding);
  if (!finding.library.empty()) {
    return finding.library +
           " asks once for each handle, stream or captured graph: does every step make new ones? Use them again, or "
           "destroy them.";
  }
  if (const auto keeper = KeeperOf(report, finding)) {
    return "Kept by " + std::string(keeper->call) + " into a container" +
           (keeper->line.empty() ? "" : " at " + keeper->line) + "? Empty it when the step ends.";
  }
  const std::string most = Grouped(finding.line_frees) + " of " + Grouped(finding.line_allocations);
  if (finding.line_frees != 0 && (!finding.companions.empty() || finding.shape != GrowthShape::kEveryStep)) {
    return "Freed in other cases (" + most + " blocks): " +
           (finding.shape == GrowthShape::kEveryFewSteps
                ? "what is different every " + Grouped(finding.period) + " steps? "
                : "") +
           "Look for an early return, continue or exception before the free, or let an owning object free it.";
  }
  if (finding.shape == GrowthShape::kEveryFewSteps) {
    return "What runs every " + Grouped(finding.period) +
           " steps (evaluation, logging, a checkpoint) never frees it: " + free_call + " it when that ends.";
  }
  if (finding.shape == GrowthShape::kOverTime) {
    return "No block of this line is freed: " + free_call +
           " it, or if it is set-up, mark the steps with cuheap_step() so that the two can be told apart.";
  }
  if (finding.shape == GrowthShape::kIrregular)
    return "No block of this line is ever freed, whatever leads there: " + free_call + " it when its user is done.";
  return ForEveryStep(report, finding, free_call);
}

// What would have made room, from the largest to the smallest certainty.
std::string ForCapacity(const Report& report, const Failure& failure) {
  const OomFigures& figures = failure.figures;
  if (figures.request > figures.total)
    return "The request alone is larger than the device: ask for it in parts, or check how its size is reckoned.";
  const std::uint64_t missing = figures.needed() - std::min(figures.needed(), figures.free + figures.idle);
  for (const LeakClass leak_class : {LeakClass::kLeak, LeakClass::kFreedAtEnd}) {
    std::uint64_t bytes = 0;
    for (const LeakFinding& finding : report.findings) {
      if (finding.leak_class == leak_class && finding.scope == failure.scope && finding.first_ns < failure.first_ns)
        bytes += finding.bytes;
    }
    if (bytes >= missing) {
      return Human(missing) + " were missing for this one request, and " +
             (leak_class == LeakClass::kLeak ? "the leaks hold " : "what piled up holds ") + Human(bytes) +
             " by the end: free that first.";
    }
  }
  const CacheGrowth* cache = report.growing_cache();
  if (cache != nullptr && cache->segments.scope == failure.scope)
    return Human(missing) + " were missing; PyTorch's cache grew until then. " + AdviceFor(report, *cache);
  for (const ScopeTotals& totals : report.totals) {
    if (totals.scope != failure.scope || totals.peak_by_line.empty()) continue;
    const LineShare& most = totals.peak_by_line.front();
    return Human(missing) + " were missing; most at the peak is held by " + Describe(report.lines.line(most.line)) +
           " (" + Human(most.bytes) + "): make that smaller, or free it before.";
  }
  return Human(missing) + " were missing: ask for less.";
}

}  // namespace

std::string AdviceFor(const Report& report, const LeakFinding& finding) {
  if (finding.leak_class == LeakClass::kLeak) return ForLeak(report, finding);
  if (finding.leak_class != LeakClass::kFreedAtEnd) return "";
  if (finding.from_pytorch) {
    return "Tensors are kept until the end: a list of losses or outputs? Keep numbers (loss.item()) or "
           "x.detach().cpu() instead.";
  }
  if (const auto keeper = KeeperOf(report, finding)) {
    return "Kept by " + std::string(keeper->call) + (keeper->line.empty() ? "" : " at " + keeper->line) +
           " until the end: empty the container between phases.";
  }
  return "Free or reuse between phases: " + Human(finding.bytes) + " in " + Plural(finding.blocks, "block") +
         " wait for the end.";
}

std::string AdviceFor(const Report& report, const CacheGrowth& cache) {
  if (!cache.growing) return "";
  if (report.tensors_seen && !cache.segments.scope.host)
    return "No tensor is kept, so it is in pieces: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or sizes that "
           "vary "
           "less.";
  if (cache.segments.scope.host)
    return "Pinned buffers are kept: are tensors of pin_memory() or non_blocking copies collected in a list?";
  const std::string kept =
      "Are losses or outputs collected as tensors? Keep loss.item() or x.detach().cpu(); evaluate under "
      "torch.no_grad().";
  if (cache.segments.shape != GrowthShape::kIrregular) return kept;
  return kept + " If only sizes vary from step to step: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.";
}

std::string AdviceFor(const Report& report, const Failure& failure) {
  if (const std::string advice = CauseAdvice(report, failure.context); !advice.empty()) return advice;
  switch (failure.verdict) {
    case OomVerdict::kCapacity:
      return ForCapacity(report, failure);
    case OomVerdict::kOtherOwner:
      return "nvidia-smi names the processes on device " + std::to_string(failure.scope.device) +
             ": end them, or use another device.";
    case OomVerdict::kIdleInPool:
      return "Ask for the large block before the small ones, or compare with --observe, where no memory is pooled.";
    case OomVerdict::kUnexplained:
      return "See who else used the device then (nvidia-smi), and limits of MIG, MPS or a container.";
    case OomVerdict::kNotMemory:
      break;
  }
  return "";
}

std::string AdviceFor(const PoolUse& pool) {
  if (pool.fragmentation() < 0.1 || pool.idle_pinned_bytes <= std::uint64_t{1} << 20) return "";
  std::uint64_t thin = 0;
  for (const SegmentUse& segment : pool.map)
    thin += segment.blocks != 0 && 2 * segment.used_bytes < segment.bytes ? 1 : 0;
  if (thin == 0)
    return "Blocks that live long lie between others: allocate them together, before what is freed every step.";
  return Plural(thin, "segment") + (thin == 1 ? " is" : " are") +
         " kept by live blocks that fill less than half: allocate what lives long before what is freed every step.";
}

}  // namespace cuheap::analysis
