#include "analysis/reports/framework_text.h"

#include <algorithm>
#include <string>
#include <vector>

#include "analysis/reports/advice.h"
#include "analysis/reports/allocator_settings_words.h"
#include "analysis/reports/ran_out_text.h"
#include "analysis/reports/text_format.h"
#include "analysis/reports/torch_facts_text.h"

namespace cuheap::analysis {
namespace {

std::string Human(std::uint64_t bytes) { return HumanBytes(static_cast<double>(bytes)); }

std::string When(const Report& report, std::int64_t time_ns) {
  const std::uint32_t step = report.steps.StepOf(time_ns);
  std::string text = HumanTime(time_ns);
  if (step != 0 && step <= report.steps.count()) text += ", step " + Grouped(step);
  return text;
}

std::string DeviceName(std::uint32_t device) {
  return device == kUnknownDevice ? "an unknown device" : "device " + std::to_string(device);
}

// The last of the driver's refusals that led to it; null: none was recorded.
const Failure* FailureBehind(const Report& report, const FrameworkRefusal& refusal) {
  const Failure* behind = nullptr;
  for (const Failure& failure : report.failures) {
    if (failure.outcome == FailureOutcome::kBehindFramework && failure.scope.device == refusal.device &&
        failure.first_position < refusal.position && report.lines.OfStack(refusal.stack) == failure.line)
      behind = &failure;
  }
  return behind;
}

}  // namespace

// The driver's refusal is the same failure, seen from below.
void FrameworkText::BehindIt(const FrameworkRefusal& refusal) {
  const Failure* failure = FailureBehind(report_, refusal);
  if (failure == nullptr) return;
  const OomFigures& figures = failure->figures;
  std::string text = "the driver had refused " + Human(figures.request) + " for it";
  if (failure->count > 1) text += " (" + Grouped(failure->count) + " times)";
  if (failure->free_known) {
    text += ", with about " + Human(figures.free) + " free and " + Human(figures.outside()) +
            " held by others, of " + Human(figures.total) + " (an estimate)";
  }
  canvas_.Detail(text);
}

void FrameworkText::Cache(const FrameworkCache& cache) {
  if (!cache.tensors_seen) return;
  canvas_.Section("PYTORCH'S CACHE", DeviceName(cache.device) + ": at most " + Human(cache.tensor_peak_bytes) +
                                         " in tensors, " + Human(cache.reserved_peak_bytes) + " held for them");
  canvas_.Field("tensors", Grouped(cache.allocations) + " handed out, " + Grouped(cache.frees) + " taken back" +
                               (cache.peak_exact ? "" : " in the events that were kept"));
  if (cache.peak_exact) State("at the peak", cache.at_peak);
  State("last tensor", cache.at_last);
  State("at the end", cache.at_end);
  WriteTorchFacts(*report_.snapshot, canvas_);
  Curves(cache);
  Fragmentation(cache);
}

void FrameworkText::State(std::string_view when, const CacheState& state) {
  std::string text = Human(state.reserved) + " in " + Plural(state.segments.size(), "segment") + ": " +
                     Human(state.used) + " in " + Plural(state.tensors, "tensor") + ", " + Human(state.idle()) + " idle";
  if (state.largest_idle != 0 && state.largest_idle != state.idle()) text += " (largest " + Human(state.largest_idle) + ")";
  if (state.outside != 0) text += "; " + Human(state.outside) + " more in memory of another allocator";
  canvas_.Field(when, text + (when == "at the end" ? "" : "; " + When(report_, state.time_ns)));
}

void FrameworkText::Curves(const FrameworkCache& cache) {
  if (!canvas_.utf8() || cache.curve.empty()) return;
  std::vector<CurvePoint> tensors, reserved;
  for (const CachePoint& point : cache.curve) {
    tensors.push_back({point.time_ns, point.tensors});
    reserved.push_back({point.time_ns, point.reserved});
  }
  for (auto* curve : {&tensors, &reserved}) {
    const std::string line = Sparkline(*curve, canvas_.width() - 20);
    if (!line.empty()) canvas_.Field(curve == &tensors ? "in tensors" : "held", line);
  }
}

// What was idle while the program still worked: when the last tensor was handed out.
void FrameworkText::Fragmentation(const FrameworkCache& cache) {
  const CacheState& state = cache.at_last;
  const std::vector<Note>& notes = report_.snapshot->notes;
  // Where segments are not what their blocks add up to, nobody knows what is idle.
  const bool contradicts =
      std::any_of(notes.begin(), notes.end(), [](const Note& note) { return note.code == "torch_headers"; });
  if (state.idle() == 0 || contradicts) return;
  if (state.idle_whole != 0) {
    canvas_.Field("could go back", "when the last tensor was made: " + Human(state.idle_whole) + " in " + Plural(state.idle_whole_segments, "segment") +
                                     " without a tensor (by torch.cuda.empty_cache())");
  }
  if (state.idle_pinned() == 0) return;
  const double share = static_cast<double>(state.idle_pinned()) / static_cast<double>(state.reserved);
  std::string text = Percent(share) + " of what is held: " + Human(state.idle_pinned()) + " idle beside tensors";
  if (state.largest_idle != 0) text += "; a request over " + Human(state.largest_idle) + " needs new memory";
  canvas_.Field("fragmentation", text);
}

void FrameworkText::LiveAt(const FrameworkRefusal& refusal) {
  if (refusal.lines.empty()) return;
  constexpr std::size_t kShown = 5;
  canvas_.Detail("live then, by line:");
  for (std::size_t i = 0; i < std::min(kShown, refusal.lines.size()); ++i) {
    const CacheShare& share = refusal.lines[i];
    canvas_.Line(PadLeft(Human(share.bytes), 16) + "  " + PadLeft(Grouped(share.tensors), 7) + "  " +
                 ShowLine(report_, report_.lines.line(share.line), canvas_.width() - 28, canvas_.utf8()));
  }
}

void FrameworkText::Refusals(const FrameworkCache& cache) {
  for (const FrameworkRefusal& refusal : cache.refusals) {
    canvas_.Line("  " + ShowLine(report_, report_.lines.line(report_.lines.OfStack(refusal.stack)), canvas_.width() - 4,
                                 canvas_.utf8()));
    canvas_.Detail("PyTorch raised OutOfMemoryError on " + DeviceName(cache.device) + ": " + BytesBoth(refusal.request) +
                   " asked for at " + When(report_, refusal.time_ns));
    std::string text = "it had " + Human(refusal.told_tensors) + " in tensors and " +
                       Human(refusal.told_reserved - std::min(refusal.told_reserved, refusal.told_tensors)) +
                       " idle in its cache";
    if (cache.tensors_seen && refusal.idle != 0) {
      text += ", of which " + Human(refusal.unusable) + " could not serve this request (largest block " +
              Human(refusal.largest_idle) + ")";
    }
    canvas_.Detail(text);
    BehindIt(refusal);
    LiveAt(refusal);
    if (const std::string roles = RolesBeside(refusal.context); !roles.empty()) canvas_.Detail("by what they are for: " + roles);
    const std::string cause = CauseText(report_, refusal.context, refusal.request);
    const bool in_pieces = refusal.idle >= refusal.request && refusal.unusable == refusal.idle;
    if (!cause.empty()) {
      canvas_.Detail("Cause: " + cause + ".");
      canvas_.Detail("-> " + CauseAdvice(report_, refusal.context));
    } else if (in_pieces) {
      canvas_.Detail("Fragmentation of PyTorch's cache: what lies idle beside live tensors would have sufficed in one "
                     "piece.");
      canvas_.Detail("-> " + AdviceOnPieces(report_, cache.device));
    } else if (const Failure* failure = FailureBehind(report_, refusal)) {
      if (failure->verdict == OomVerdict::kCapacity)
        canvas_.Detail("Capacity: even with all idle memory it would not have fitted.");
      if (const std::string advice = AdviceFor(report_, *failure); !advice.empty()) canvas_.Detail("-> " + advice);
    }
  }
  if (cache.refusal_count > cache.refusals.size()) {
    canvas_.Dim("  and " + Plural(cache.refusal_count - cache.refusals.size(), "other") + " of PyTorch's");
  }
}

}  // namespace cuheap::analysis
