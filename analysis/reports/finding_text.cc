#include "analysis/reports/finding_text.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <vector>

#include "analysis/reports/advice.h"
#include "analysis/reports/companions.h"
#include "analysis/reports/replaced_text.h"
#include "analysis/reports/report_text.h"
#include "analysis/reports/text_format.h"

namespace cuheap::analysis {
namespace {

constexpr std::size_t kFramesShown = 8;
constexpr std::uint64_t kFewBytes = 4096;
constexpr std::size_t kNarrowestName = 36;  // columns

std::string Human(double bytes) { return HumanBytes(bytes); }

std::string StepRange(const LeakFinding& finding, std::uint32_t count) {
  const auto name = [&](std::uint32_t step) { return step > count ? std::string("the end") : Grouped(step); };
  if (finding.first_step == finding.last_step) return "step " + name(finding.first_step) + " of " + Grouped(count);
  return "steps " + name(finding.first_step) + " to " + name(finding.last_step) + " of " + Grouped(count);
}

bool IsStartUp(const std::string& function) {
  return function == "_start" || function.starts_with("__libc_start") || function == "start_thread" ||
         function.starts_with("__clone") || function == "clone3" || function == "clone";
}

std::string_view HeldPhrase(GrowthShape shape) {
  switch (shape) {
    case GrowthShape::kOnce:
      return "once";
    case GrowthShape::kStopped:
      return "stopped growing";
    case GrowthShape::kBounded:
      return "bounded: others of the line are freed instead";
    case GrowthShape::kReplaced:
      return "newest of a line that frees its older ones";
    case GrowthShape::kEveryStep:
    case GrowthShape::kEveryFewSteps:
    case GrowthShape::kIrregular:
      return "growing";
    case GrowthShape::kOverTime:
      return "over the run";
  }
  return "";
}

}  // namespace

std::string ScopeName(const Scope& scope) {
  if (scope.host) return "the host's pinned memory";
  const std::string device =
      scope.device == kUnknownDevice ? "an unknown device" : "device " + std::to_string(scope.device);
  return (scope.tensors ? "tensors on " : "") + device;
}

std::string GrowthPhrase(const LeakFinding& finding) {
  switch (finding.shape) {
    case GrowthShape::kEveryStep:
      return "+" + Human(finding.bytes_per_step) + " every step";
    case GrowthShape::kEveryFewSteps:
      return "+" + Human(static_cast<double>(finding.bytes_per_occurrence)) + " every " + Grouped(finding.period) +
             " steps";
    case GrowthShape::kIrregular:
      return "+" + Human(static_cast<double>(finding.bytes_per_occurrence)) + " in " + Grouped(finding.occurrences) +
             " steps, irregularly, about " + Human(finding.bytes_per_step) + " a step";
    case GrowthShape::kOverTime:
      if (finding.cause == LeakCause::kGraph && finding.occurrences > 1) {
        return "+" + Human(static_cast<double>(finding.bytes_per_occurrence)) + " each time, " +
               Grouped(finding.occurrences) + " times, about every " + HumanTime(finding.interval_ns);
      }
      return Plural(finding.blocks, "block") + " over the run, " + Human(static_cast<double>(finding.bytes)) +
             (finding.blocks < 4 ? std::string()
                                 : ", about " + Human(static_cast<double>(finding.bytes_per_occurrence)) + " every " +
                                       HumanTime(finding.interval_ns));
    case GrowthShape::kStopped:
    case GrowthShape::kBounded:
    case GrowthShape::kReplaced:
    case GrowthShape::kOnce:
      break;
  }
  return Human(static_cast<double>(finding.bytes));
}

std::string CallersText(const Report& report, const LeakFinding& finding, std::size_t width, bool utf8) {
  constexpr std::string_view kCalledBy = "called by ";
  const std::size_t room = width > 40 ? width - kCalledBy.size() : 30;
  if (finding.caller != 0)
    return std::string(kCalledBy) + ShowLine(report, report.lines.line(finding.caller), room, utf8);
  if (finding.cause == LeakCause::kGraph || finding.cause == LeakCause::kGradient) return "";  // has parts instead
  std::set<std::uint32_t> callers;
  for (const StackShare& share : finding.stacks) callers.insert(report.lines.CallerOfStack(share.stack));
  if (callers.size() < 2) return "";
  return "called by " + Grouped(callers.size()) + " lines that grow alike";
}

std::string_view ConfidenceWord(Confidence confidence) {
  switch (confidence) {
    case Confidence::kHigh:
      return "high";
    case Confidence::kMedium:
      return "medium";
    case Confidence::kLow:
      break;
  }
  return "low";
}

void FindingText::Leaks() {
  std::size_t number = 0, hidden = 0;
  const std::size_t leaks = report_.leak_count();  // they come first
  for (std::size_t i = 0; i < leaks; ++i) {
    if (ToldBefore(report_, i)) continue;
    if (number < canvas_.top())
      Leak(++number, report_.findings[i]);
    else
      ++hidden;
  }
  if (hidden != 0) {
    canvas_.Line();
    canvas_.Dim("  and " + Plural(hidden, "other line") + " (--top " + std::to_string(number + hidden) + " shows all)");
  }
}

void FindingText::Advice(const std::string& advice) {
  if (!advice.empty()) canvas_.Detail("-> " + advice);
}

void FindingText::Cache() {
  const CacheGrowth* cache = report_.growing_cache();
  if (cache == nullptr || (report_.tensors_seen && report_.leak_count() != 0)) return;  // told by the tensors' lines
  canvas_.Line();
  canvas_.Strong("     PyTorch's cache, " + ScopeName(cache->segments.scope));
  std::string text =
      GrowthPhrase(cache->segments) + " (" + std::string(ConfidenceWord(cache->segments.confidence)) + " confidence)";
  if (cache->segments.shape != GrowthShape::kOverTime) {
    text += ", " + Human(static_cast<double>(cache->segments.bytes)) + " in " +
            Plural(cache->segments.blocks, "segment") + " at the end";
  }
  canvas_.Detail(text);
  Advice(AdviceFor(report_, *cache));
}

std::string FindingText::NeverFreed(const LeakFinding& finding) const {
  std::string text = Plural(finding.blocks, "block") + ", " + BytesBoth(finding.bytes);
  if (finding.reserved_bytes > finding.bytes)
    text += ", occupying " + Human(static_cast<double>(finding.reserved_bytes));
  if (finding.freed_at_exit == finding.blocks)
    text += ", freed only when the program ended";
  else if (finding.freed_with_context == finding.blocks)
    text += ", freed only by the end of the context";
  else
    text +=
        ", never freed" +
        (finding.freed_at_exit == 0 ? "" : " or (" + Grouped(finding.freed_at_exit) + ") only when the program ended");
  if (finding.scope != Scope{}) text += ", on " + ScopeName(finding.scope);
  return text;
}

void FindingText::Leak(std::size_t number, const LeakFinding& alone) {
  const LeakFinding finding = WithCompanions(report_, alone);
  const bool together = finding.parts.size() != alone.parts.size();
  canvas_.Line();
  canvas_.Strong(PadLeft(std::to_string(number), 3) + "  " +
                 ShowLine(report_, report_.lines.line(finding.line), canvas_.width() - 5, canvas_.utf8()));
  std::string callers = CallersText(report_, finding, canvas_.width() - 5, canvas_.utf8());
  if (callers.empty() && together) {
    if (const std::uint32_t caller = report_.lines.CallerOfStack(finding.stacks.front().stack); caller != 0)
      callers = "called by " + ShowLine(report_, report_.lines.line(caller), canvas_.width() - 15, canvas_.utf8());
  }
  if (!callers.empty()) canvas_.Strong("     " + callers);
  tensors_.Code(report_.lines.line(finding.line));
  const std::string cause =
      together ? Plural(finding.parts.size(), "line") + " of one function, in the same steps" : CausePhrase(finding);
  canvas_.Detail(GrowthPhrase(finding) + (cause.empty() ? "" : ": " + cause) + " (" +
                 std::string(ConfidenceWord(finding.confidence)) + " confidence)");
  canvas_.Detail(NeverFreed(finding));
  std::string life;
  if (finding.step_count != 0)
    life += StepRange(finding, finding.step_count) + ThreadPhrase(finding);
  else
    life += "from " + HumanTime(finding.first_ns) + " to " + HumanTime(finding.last_ns) +
            " (the last allocation of all was at " + HumanTime(report_.last_allocation_ns) + ")";
  life += (together              ? "; the lines made "
           : finding.caller == 0 ? "; the line made "
                                 : "; this caller made ") +
          Plural(finding.line_allocations, "allocation") + ", " + Grouped(finding.line_frees) + " of them freed";
  canvas_.Detail(life);
  tensors_.Parts(finding);
  tensors_.Keeper(finding);
  const CodeLine& line = report_.lines.line(finding.line);
  if (number == 1) tensors_.NotReadable(line);
  if (number == 1 && line.module_class == ModuleClass::kUser && line.basis != LineBasis::kLine)
    canvas_.Detail("source lines are not known: build with -g to see them");
  if (finding.outside_steps && finding.before_window == 0)
    canvas_.Detail("the run's steps do not cover these blocks: told over time");
  if (finding.before_window != 0) {
    canvas_.Detail(Grouped(finding.before_window) + " of the blocks are older than the events that were kept" +
                   (finding.step_count == 0 ? "" : "; steps and growth are those since"));
  }
  if (!finding.library.empty()) canvas_.Detail("asked for by " + finding.library + " for itself");
  if (!finding.companions.empty() && !together) {
    std::string lines;
    for (std::size_t i = 0; i < std::min<std::size_t>(5, finding.companions.size()); ++i) {
      lines += (i == 0 ? "" : ", ") + std::to_string(report_.lines.line(finding.companions[i]).line);
    }
    canvas_.Detail("in the same steps as " + std::string(finding.companions.size() == 1 ? "line " : "lines ") + lines +
                   (finding.companions.size() > 5 ? ", ..." : "") + " of the same function");
  }
  Advice(AdviceFor(report_, finding));
  if (canvas_.stacks() && !finding.stacks.empty()) {
    StackOf(finding.stacks.front().stack);
    if (finding.stacks.size() > 1) {
      canvas_.Dim("       and " + Plural(finding.stacks.size() - 1, "other stack") +
                  " (shown: the one with most bytes, " + Human(static_cast<double>(finding.stacks.front().bytes)) +
                  ")");
    }
  }
}

std::string FindingText::ThreadPhrase(const LeakFinding& finding) const {
  if (finding.step_thread == 0 || finding.step_thread > report_.snapshot->threads.size()) return "";
  const ThreadInfo& thread = report_.snapshot->threads[finding.step_thread - 1];
  return " of thread " + std::to_string(thread.tid) + (thread.name.empty() ? "" : " (" + thread.name + ")");
}

void FindingText::StackOf(std::uint32_t stack) {
  const Snapshot& snapshot = *report_.snapshot;
  if (stack == 0 || stack >= snapshot.stacks.size() || tensors_.Stack(stack)) return;
  const std::vector<std::uint32_t>& frames = snapshot.stacks[stack].frames;
  const std::size_t chosen = report_.lines.PositionInStack(stack);
  // From one frame inside the user's line (which call it was) outward.
  const std::size_t begin = chosen == 0 || chosen >= frames.size() ? 0 : chosen - 1;
  std::size_t last = frames.size();  // what starts main is of no interest
  while (last > chosen + 1 && snapshot.frames[frames[last - 1]].function != 0 &&
         IsStartUp(snapshot.strings[snapshot.frames[frames[last - 1]].function])) {
    --last;
  }
  const std::size_t end = std::min(last, begin + kFramesShown);
  std::vector<std::string> names, places;
  std::size_t name_width = 0;
  for (std::size_t i = begin; i < end; ++i) {
    const Frame& frame = snapshot.frames[frames[i]];
    const std::string module = frame.module == 0 ? "" : snapshot.modules[frame.module - 1].path;
    const std::string module_name = module.substr(module.rfind('/') + 1);
    CodeLine raw;
    raw.basis = LineBasis::kModule;
    raw.module = module;
    raw.offset = frame.offset;
    names.push_back(frame.function == 0 ? Describe(raw) : ShortFunction(snapshot.strings[frame.function], 40));
    places.push_back(frame.file == 0 ? module_name
                                     : ShortPath(snapshot.strings[frame.file], snapshot.process.working_directory, 50,
                                                 canvas_.utf8()) +
                                           ":" + std::to_string(frame.line));
    name_width = std::max(name_width, Columns(names.back()));
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string mark = begin + i == chosen ? "  >  " : "     ";
    canvas_.Dim("  " + mark + PadRight(names[i], name_width) + "  " + places[i]);
  }
  if (end < last)
    canvas_.Dim("       " + Plural(last - end, "more frame"));
  else if (snapshot.stacks[stack].truncated || snapshot.stacks[stack].unwind_failed)
    canvas_.Dim("       outer frames are missing");
}

void FindingText::Others() {
  Class(LeakClass::kFreedAtEnd, "FREED ONLY AT THE END",
        "Grew during the whole run and was freed when it was over: fills the device although nothing leaks.");
  // With tensors seen the cache has a section of its own, see framework_text.h.
  if (!report_.tensors_seen) {
    Class(LeakClass::kCache, "PYTORCH'S CACHE",
          report_.growing_cache() == nullptr ? "Segments PyTorch keeps for its tensors; they do not keep growing."
                                             : "Segments PyTorch keeps for its tensors; they keep growing.");
    for (const FrameworkSegments& segments : report_.framework_segments) Segments(segments);
  }
  Class(LeakClass::kLibrary, "KEPT BY CUDA LIBRARIES",
        "Workspaces that a library keeps on purpose, once per handle and stream.");
  Class(LeakClass::kContext, "FREED WITH THEIR CONTEXT",
        "The program left these to cudaDeviceReset or the end of a context, and ran on. They did not pile up in one.");
  const bool none = std::none_of(report_.findings.begin(), report_.findings.end(),
                                 [](const LeakFinding& finding) { return finding.leak_class == LeakClass::kReplaced; });
  Class(LeakClass::kReplaced, "HELD UNTIL REPLACED",
        "The newest blocks of lines that free their older ones: a cache of one entry, the last step's gradients.");
  WriteReplaced(report_, none, canvas_);
  const bool at_end = std::any_of(report_.findings.begin(), report_.findings.end(), [](const LeakFinding& finding) {
    return finding.leak_class == LeakClass::kHeld && finding.freed_at_exit != 0;
  });
  Class(LeakClass::kHeld, at_end ? "HELD TO THE END, NOT GROWING" : "NEVER FREED, NOT GROWING",
        at_end ? "Weights, optimizer state, gradients, the last step's tensors, caches that filled up."
               : "Weights, buffers of the set-up, caches that filled up.");
}

void FindingText::Segments(const FrameworkSegments& segments) {
  if (segments.held.empty()) return;
  constexpr std::size_t kSizesShown = 4;
  std::map<std::uint64_t, std::uint64_t, std::greater<>> sizes;
  for (const FrameworkSegment& segment : segments.held) ++sizes[segment.bytes];
  std::string text;
  std::size_t shown = 0;
  for (const auto& [bytes, count] : sizes) {
    if (shown++ == kSizesShown) break;
    text += (text.empty() ? "" : ", ") + Grouped(count) + " of " + Human(static_cast<double>(bytes));
  }
  if (sizes.size() > kSizesShown) text += ", and smaller ones";
  const std::string device =
      segments.device == kUnknownDevice ? "a device that is not known" : "device " + std::to_string(segments.device);
  canvas_.Line();
  canvas_.Paragraph(Plural(segments.held.size(), "segment") + " on " + device + ": " + text +
                    " (their addresses: --json)");
}

void FindingText::Class(LeakClass leak_class, std::string_view title, std::string_view explanation) {
  std::uint64_t bytes = 0, blocks = 0, lines = 0;
  for (const LeakFinding& finding : report_.findings) {
    if (finding.leak_class != leak_class) continue;
    bytes += finding.bytes;
    blocks += finding.blocks;
    ++lines;
  }
  if (lines == 0) return;
  canvas_.Section(title, BytesBoth(bytes) + " in " + Plural(blocks, "block") + " of " + Plural(lines, "line"));
  if (bytes < kFewBytes && leak_class != LeakClass::kFreedAtEnd) return;  // not worth a table
  canvas_.Paragraph(explanation);
  canvas_.Line();
  canvas_.Dim("      bytes   blocks  line");
  std::size_t shown = 0;
  std::vector<std::string> advices;
  for (const LeakFinding& finding : report_.findings) {
    if (finding.leak_class != leak_class) continue;
    if (shown++ == canvas_.top()) break;
    const bool told = Grows(finding.shape) && finding.shape != GrowthShape::kOverTime;
    std::string how(told ? GrowthPhrase(finding) : HeldPhrase(finding.shape));
    if (leak_class == LeakClass::kContext) how = "freed with its context";
    if (leak_class == LeakClass::kReplaced) how = "the newest";
    if (leak_class == LeakClass::kHeld && finding.before_window == finding.blocks) how = "made before the record";
    if (leak_class == LeakClass::kReplaced && finding.replaces.blocks != 0) {
      how = "in place of " + Plural(finding.replaces.blocks, "block") + ", " +
            Human(static_cast<double>(finding.replaces.bytes)) + ", from before the record";
    }
    if (!finding.library.empty()) how += ", " + finding.library;
    if (finding.scope != Scope{}) how += ", " + ScopeName(finding.scope);
    how.insert(0, "  [").append("]");
    // The name gives way to what is said of it, and has a line of its own if that is too long.
    const bool fits = canvas_.width() >= 22 + kNarrowestName + Columns(how);
    canvas_.Line(PadLeft(Human(static_cast<double>(finding.bytes)), 11) + "  " + PadLeft(Grouped(finding.blocks), 7) +
                 "  " +
                 ShowLine(report_, report_.lines.line(finding.line), canvas_.width() - 22 - (fits ? Columns(how) : 0),
                          canvas_.utf8()) +
                 (fits ? how : ""));
    if (!fits) canvas_.Line(std::string(22, ' ') + how);
    if (finding.caller != 0)
      canvas_.Dim(std::string(24, ' ') + CallersText(report_, finding, canvas_.width() - 24, canvas_.utf8()));
    if (const std::string advice = AdviceFor(report_, finding); !advice.empty()) advices.push_back(advice);
  }
  if (!advices.empty()) Advice(advices.front());
  if (lines > canvas_.top()) canvas_.Dim(std::string(22, ' ') + "and " + Plural(lines - canvas_.top(), "other line"));
}

}  // namespace cuheap::analysis
