#include "analysis/reports/verdict_text.h"

#include <algorithm>

#include "analysis/reports/driver_objects_text.h"
#include "analysis/reports/finding_text.h"
#include "analysis/reports/ran_out_text.h"
#include "analysis/reports/text_format.h"

namespace cuheap::analysis {
namespace {

constexpr std::string_view kHiddenTensors = "single tensors inside PyTorch's cache were not observed";

std::string Human(std::uint64_t bytes) { return HumanBytes(static_cast<double>(bytes)); }

void Join(std::string& text, const std::string& more) {
  if (!more.empty()) text += (text.empty() ? "" : "; ") + more;
}

VerdictWords VerdictOf(const Report& report);  // of what is left of the record

bool AnyFreedAtExit(const Report& report, LeakClass leak_class) {
  return std::any_of(report.findings.begin(), report.findings.end(), [&](const LeakFinding& finding) {
    return finding.leak_class == leak_class && finding.freed_at_exit != 0;
  });
}

std::string LeakText(const Report& report) {
  const std::uint64_t leaks = report.leak_count();
  if (leaks == 0) return "";
  const bool freed = AnyFreedAtExit(report, LeakClass::kLeak);  // by the interpreter, when the program is over
  return (leaks == 1 ? "1 line leaks" : Grouped(leaks) + " lines leak") + std::string(": ") +
         BytesBoth(report.leaked_bytes()) + (freed ? " kept to the end and growing" : " never freed and growing");
}

// Against the peak and in itself: worth a look, but not what fills a device in this run.
bool IsSmallLeak(const Report& report) {
  constexpr std::uint64_t kSmallLeak = std::uint64_t{1} << 20;
  std::uint64_t peak = 0;
  for (const ScopeTotals& totals : report.totals) peak = std::max(peak, totals.peak_bytes);
  return report.leaked_bytes() < kSmallLeak && report.leaked_bytes() < peak / 100;
}

VerdictWords OutOfMemory(const Report& report) {
  std::string text = LeakText(report);
  if (text.empty()) {
    text = "an allocation was refused";
    if (const std::string cause = FirstCauseText(report); !cause.empty()) text = cause;
    const std::string cache = CacheGrowthText(report), piled = PiledUpText(report);
    Join(text, cache);
    Join(text, piled);
    if (cache.empty() && piled.empty())
      text += report.unobserved_tensors() ? "; no line leaks in what was observed; " + std::string(kHiddenTensors)
                                          : "; no line leaks";
  }
  return {"OUT OF MEMORY", text, TextColor::kBad};
}

VerdictWords NoLeaks(const Report& report) {
  std::string text;
  const std::string piled = PiledUpText(report);
  if (!piled.empty()) text = "but " + piled;
  std::uint64_t held = 0, before = 0;
  for (const LeakFinding& finding : report.findings) {
    // The tensors of a cache lie in its segments.
    const bool told_as_tensors = finding.leak_class == LeakClass::kCache && report.tensors_seen;
    const bool gone = finding.leak_class == LeakClass::kFreedAtEnd || finding.leak_class == LeakClass::kContext;
    if (gone || told_as_tensors) continue;
    held += finding.bytes;
    if (finding.blocks != 0 && finding.before_window == finding.blocks) before += finding.bytes;
  }
  if (held != 0)
    Join(text, Human(held) +
                   (AnyFreedAtExit(report, LeakClass::kHeld) || AnyFreedAtExit(report, LeakClass::kReplaced)
                        ? " held to the end"
                        : " never freed") +
                   ", but not growing");
  // A record that begins when all is there shows no growth, leak or not. cuheap's own has the times of all blocks.
  const bool one_moment = report.snapshot->recorder == "pytorch" && report.steps.count() == 0 && 2 * before > held;
  if (one_moment) Join(text, Human(before) + " of it was there before the record began: how it grew is not known");
  const std::uint64_t with_context = report.bytes_of(LeakClass::kContext);
  if (with_context != 0) Join(text, Human(with_context) + " went with their contexts");
  if (text.empty()) text = "everything that was allocated was freed";
  if (report.unobserved_tensors()) text = "in what was observed: " + text + "; " + std::string(kHiddenTensors);
  if (report.unseen()) {
    if (!report.unobserved_tensors()) text = "in what was observed: " + text;
    Join(text, "some calls went past cuheap (see NOT OBSERVED)");
  }
  const std::string objects = PiledUpObjectsText(report);
  Join(text, objects);
  const bool good = !one_moment && piled.empty() && objects.empty() && !report.unobserved_tensors() && !report.unseen();
  return {"NO LEAKS", text, good ? TextColor::kGood : TextColor::kWarn};
}

}  // namespace

std::string CacheGrowthText(const Report& report) {
  const CacheGrowth* cache = report.growing_cache();
  if (cache == nullptr || (report.tensors_seen && report.leak_count() != 0)) return "";
  const LeakFinding& segments = cache->segments;
  std::string text = "PyTorch's cache";
  if (segments.scope != Scope{}) text += " on " + ScopeName(segments.scope);
  if (segments.step_count == 0)
    return text + " grows at a steady pace, " + Human(segments.bytes) + " at the end (no steps known)";
  return text + " grows by " + HumanBytes(segments.bytes_per_step) + " a step to the end" +
         (segments.confidence == Confidence::kLow ? " (low confidence)" : "");
}

std::string PiledUpText(const Report& report) {
  const std::uint64_t bytes = report.bytes_of(LeakClass::kFreedAtEnd);
  return bytes == 0 ? "" : BytesBoth(bytes) + " piled up, freed only at the end";
}

VerdictWords PutVerdict(const Report& report) {
  VerdictWords words = VerdictOf(report);
  if (report.record_incomplete() && report.verdict != Verdict::kIncomplete)
    Join(words.text, "the record is incomplete (see NOT OBSERVED): there may be more");
  return words;
}

namespace {

VerdictWords VerdictOf(const Report& report) {
  switch (report.verdict) {
    case Verdict::kOutOfMemory:
      return OutOfMemory(report);
    case Verdict::kLeaks: {
      std::string text = LeakText(report);
      Join(text, CacheGrowthText(report));
      Join(text, PiledUpText(report));
      if (!IsSmallLeak(report) || report.growing_cache() != nullptr) return {"LEAK", text, TextColor::kBad};
      return {"SMALL LEAK", text, TextColor::kWarn};
    }
    case Verdict::kGrowing: {
      const bool irregular = report.growing_cache()->segments.shape == GrowthShape::kIrregular;
      return {"GROWING",
              CacheGrowthText(report) +
                  (report.tensors_seen ? ", though no tensor is kept: it is in pieces"
                                       : (irregular ? "; tensors are kept somewhere, or sizes that vary fragment it"
                                                    : "; tensors are kept somewhere") +
                                             std::string(" (single tensors were not observed)")),
              TextColor::kBad};
    }
    case Verdict::kNoLeaks:
      return NoLeaks(report);
    case Verdict::kIncomplete:
      return {
          "INCOMPLETE",
          "no verdict on leaks: the record lacks what found no room or was damaged (see NOT OBSERVED); nothing grows "
          "in what is left of it",
          TextColor::kWarn};
    case Verdict::kNothingSeen:
      break;
  }
  return {"NO VERDICT", "the process used CUDA, but not one allocation was seen: see NOT OBSERVED", TextColor::kWarn};
}

}  // namespace

}  // namespace cuheap::analysis
