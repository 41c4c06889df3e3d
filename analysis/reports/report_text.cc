#include "analysis/reports/report_text.h"

#include <algorithm>
#include <csignal>
#include <string_view>
#include <utility>

#include "analysis/reports/advice.h"
#include "analysis/reports/allocator_settings_words.h"
#include "analysis/reports/category_text.h"
#include "analysis/reports/driver_objects_text.h"
#include "analysis/reports/driver_time_text.h"
#include "analysis/reports/finding_text.h"
#include "analysis/reports/fragmentation_text.h"
#include "analysis/reports/framework_text.h"
#include "analysis/reports/ran_out_text.h"
#include "analysis/reports/remedy_words.h"
#include "analysis/reports/text_canvas.h"
#include "analysis/reports/text_format.h"
#include "analysis/reports/turnover_text.h"
#include "analysis/reports/verdict_text.h"

namespace cuheap::analysis {
namespace {

std::string StepPhrase(const Report& report, std::int64_t time_ns) {
  const std::uint32_t step = report.steps.StepOf(time_ns);
  if (step == 0) return "";
  if (step > report.steps.count()) return ", after the last step";
  return ", step " + Grouped(step);
}

// "SIGKILL (9)", "signal 40".
std::string SignalName(std::uint32_t number) {
  struct Named {
    int number;
    const char* name;
  };
  static constexpr Named kNames[] = {
      {SIGHUP, "SIGHUP"},   {SIGINT, "SIGINT"},   {SIGQUIT, "SIGQUIT"}, {SIGILL, "SIGILL"},   {SIGTRAP, "SIGTRAP"},
      {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},   {SIGKILL, "SIGKILL"}, {SIGUSR1, "SIGUSR1"},
      {SIGSEGV, "SIGSEGV"}, {SIGUSR2, "SIGUSR2"}, {SIGPIPE, "SIGPIPE"}, {SIGALRM, "SIGALRM"}, {SIGTERM, "SIGTERM"},
      {SIGXCPU, "SIGXCPU"}, {SIGXFSZ, "SIGXFSZ"}, {SIGSYS, "SIGSYS"}};
  for (const Named& named : kNames) {
    if (static_cast<std::uint32_t>(named.number) == number) return named.name + (" (" + std::to_string(number) + ")");
  }
  return "signal " + std::to_string(number);
}

constexpr std::uint64_t kFewBytes = std::uint64_t{1} << 20;

class Renderer {
 public:
  Renderer(const Report& report, TextCanvas& canvas)
      : report_(report),
        snapshot_(*report.snapshot),
        canvas_(canvas),
        findings_(report, canvas_),
        frameworks_(report, canvas_) {}

  void Render() {
    VerdictLine();
    findings_.Leaks();
    findings_.Cache();
    Failures();
    Run();
    for (const ScopeTotals& totals : report_.totals) Memory(totals);
    for (const FrameworkCache& cache : report_.framework_caches) frameworks_.Cache(cache);
    RenderRemedies(report_, canvas_);
    RenderAllocatorSettings(report_, canvas_);
    findings_.Others();
    Kinds();
    WriteDriverObjects(report_, canvas_);
    for (const PoolUse& pool : report_.pools) Pool(pool);
    for (const Fragmentation& fragmentation : report_.fragmentation) {
      FragmentationSection(report_, fragmentation, canvas_);
      if (canvas_.map()) AddressMapSection(report_, fragmentation, canvas_);
    }
    if (canvas_.map() && report_.fragmentation.empty())
      canvas_.Section("ADDRESS MAP", "none: no pool of cuheap's, and no tensors in a cache of PyTorch's, were seen");
    TurnoverSections(report_, canvas_);
    DriverTimeSection(report_, canvas_);
    NotObservedList();
  }

 private:
  void VerdictLine() {
    const VerdictWords verdict = PutVerdict(report_);
    canvas_.Verdict(verdict.word, verdict.text, verdict.color);
  }

  void Run() {
    const Process& process = snapshot_.process;
    std::string command;
    for (const std::string& argument : process.command_line) command += (command.empty() ? "" : " ") + argument;
    if (command.empty()) command = process.executable;
    canvas_.Section("RUN");
    if (snapshot_.recorder == "pytorch") return RecordedByPyTorch();
    canvas_.Field("command", command);
    canvas_.Field("process", std::to_string(process.pid) + " on " + process.host + ", " +
                                 HumanTime(process.duration_ns) + ", " + EndPhrase() +
                                 (snapshot_.cuheap_version.empty() ? "" : "; cuheap " + snapshot_.cuheap_version));
    for (const Device& device : snapshot_.devices) {
      canvas_.Field("device " + std::to_string(device.ordinal),
                    device.name + ", " + HumanBytes(static_cast<double>(device.total_bytes)) +
                        (snapshot_.simulated ? ", simulated" : ""));
    }
    canvas_.Field("steps", StepsPhrase());
    for (const ScopeTotals& totals : report_.totals) {
      if (totals.scope.host && Negligible(totals))
        canvas_.Field("host memory", "at most " + BytesBoth(totals.peak_bytes) + " pinned");
    }
  }

  std::string EndPhrase() const {
    const Completeness& complete = snapshot_.completeness;
    if (complete.end == "unknown") return "end not known";
    if (complete.exit_signal) return "killed by " + SignalName(*complete.exit_signal);
    const std::string status = complete.exit_status ? " with status " + std::to_string(*complete.exit_status) : "";
    if (complete.end == "quit") return "ended" + status + ", without its exit handlers";
    if (complete.end == "killed") return "killed, or left by _exit";
    return complete.end + status;
  }

  // Its snapshot names neither process nor device.
  void RecordedByPyTorch() {
    canvas_.Field("recorded by", "PyTorch (memory snapshot): " + Grouped(snapshot_.events.size()) + " events in " +
                                     HumanTime(snapshot_.process.duration_ns));
    for (const auto& [name, value] : snapshot_.configuration) canvas_.Field("setting", name + "=" + value);
    canvas_.Field("steps", StepsPhrase());
  }

  std::string StepsPhrase() const {
    const Steps& steps = report_.steps;
    const std::string count = Grouped(steps.count());
    const std::uint32_t line = report_.lines.OfStack(steps.stack);
    const std::string where =
        line == 0 ? "the program" : ShowLine(report_, report_.lines.line(line), 48, canvas_.utf8());
    switch (steps.source) {
      case StepSource::kMarks:
        return count + (snapshot_.recorder == "pytorch" ? ", marked by the recording's annotations"
                                                        : ", marked by cuheap_step()");
      case StepSource::kOptimizer:
        return count + ", by optimizer.step" + (line == 0 ? "" : " at " + where);
      case StepSource::kGradients:
        return count + ", by the gradients that zero_grad frees";
      case StepSource::kBackward:
        return count + ", one each backward pass";
      case StepSource::kSynchronization:
        return count + ", one each time " + where + " waits for the device";
      case StepSource::kAllocation:
        return count + ", one each time " + where + " allocates";
      case StepSource::kNone:
        break;
    }
    return "none found (no recurring synchronisation or allocation): growth is told over time only";
  }

  // A few pinned bytes are in every PyTorch process, and not every device that is seen is used.
  bool Negligible(const ScopeTotals& totals) const {
    std::uint64_t most = 0;
    for (const ScopeTotals& other : report_.totals) most = std::max(most, other.peak_bytes);
    if (totals.scope.host) return totals.peak_bytes < most / 100 && totals.peak_bytes < kFewBytes;
    return totals.peak_bytes == 0 && most != 0;
  }

  void Memory(const ScopeTotals& totals) {
    if (Negligible(totals)) return;
    const std::string where = totals.scope.host ? "host memory, pinned" : ScopeName(totals.scope);
    canvas_.Section("PEAK", where + ": " + BytesBoth(totals.peak_bytes) + " at " + HumanTime(totals.peak_ns) +
                                StepPhrase(report_, totals.peak_ns));
    if (totals.capacity_bytes != 0 && totals.peak_bytes != 0) {
      canvas_.Field("of the device",
                    Percent(static_cast<double>(totals.peak_bytes) / static_cast<double>(totals.capacity_bytes)));
    }
    canvas_.Field("at the end", BytesBoth(totals.live_bytes) + " live in " + Plural(totals.live_blocks, "block"));
    if (canvas_.utf8() && !totals.curve.empty()) {
      const std::string line = Sparkline(totals.curve, canvas_.width() - 20);
      if (!line.empty()) canvas_.Field("over time", line);
    }
    if (2 * totals.powers_of_two.bytes > totals.peak_bytes) {
      canvas_.Paragraph(
          Plural(totals.powers_of_two.blocks, "block") + " of " +
          HumanBytes(static_cast<double>(totals.powers_of_two.bytes)) +
          " in all are exactly a power of two: perhaps a caching allocator rounded them up (PyTorch's does "
          "with pinned memory). What was asked of it is not seen.");
    }
    if (snapshot_.completeness.live_dropped != 0)
      canvas_.Paragraph("The journal had no room for some blocks: the peak was at least this.");
    if (totals.basis == PeakBasis::kOutsideWindow) {
      canvas_.Paragraph(
          "The peak lies before the events that were kept: its size and time are exact, what it was made of is lost.");
      return;
    }
    if (totals.basis == PeakBasis::kPartial && totals.composed_bytes < totals.peak_bytes) {
      canvas_.Paragraph("Events were lost: of the peak's bytes " +
                        Percent(static_cast<double>(totals.composed_bytes) / static_cast<double>(totals.peak_bytes)) +
                        " are known by line.");
    }
    switch (canvas_.peak_by()) {
      case PeakBy::kLine:
        return LineRows(totals);
      case PeakBy::kLibrary:
        return PartRows(totals, totals.peak_by_library, "library, package or program that is charged, at the peak");
      case PeakBy::kLifetime:
        return PartRows(totals, totals.peak_by_lifetime, "how long it lives, at the peak");
    }
  }

  void PartRows(const ScopeTotals& totals, const std::vector<PartBytes>& parts, std::string_view heading) {
    if (parts.empty() && totals.peak_cache.blocks == 0) return;
    canvas_.Line();
    canvas_.Dim("      bytes    share   blocks  " + std::string(heading));
    if (totals.peak_cache.blocks != 0) Row(totals.peak_cache, totals.peak_bytes, "PyTorch's cache, see there");
    for (const PartBytes& part : parts) {
      LineBytes row;
      row.bytes = part.bytes;
      row.blocks = part.blocks;
      Row(row, totals.peak_bytes, Clip(part.name, canvas_.width() - 32, canvas_.utf8()));
    }
  }

  void LineRows(const ScopeTotals& totals) {
    if (totals.peak_by_line.empty() && totals.peak_cache.blocks == 0) return;
    canvas_.Line();
    canvas_.Dim("      bytes    share   blocks  line, at the peak");
    if (totals.peak_cache.blocks != 0) Row(totals.peak_cache, totals.peak_bytes, "PyTorch's cache, see there");
    const std::size_t shown = std::min(canvas_.top(), totals.peak_by_line.size());
    for (std::size_t i = 0; i < shown; ++i) {
      const LineShare& share = totals.peak_by_line[i];
      Row(share, totals.peak_bytes,
          ShowLine(report_, report_.lines.line(share.line), canvas_.width() - 32, canvas_.utf8()));
      for (std::size_t j = 0; j < std::min<std::size_t>(4, share.callers.size()); ++j) {
        const LineBytes& caller = share.callers[j];
        const std::string who =
            caller.line == 0 ? "elsewhere"
                             : ShowLine(report_, report_.lines.line(caller.line), canvas_.width() - 52, canvas_.utf8());
        canvas_.Dim(std::string(30, ' ') + "called by " + who + ": " + HumanBytes(static_cast<double>(caller.bytes)));
      }
      if (share.callers.size() > 4)
        canvas_.Dim(std::string(30, ' ') + "and by " + Plural(share.callers.size() - 4, "other line"));
    }
    LineBytes rest;
    for (std::size_t i = shown; i < totals.peak_by_line.size(); ++i) {
      rest.bytes += totals.peak_by_line[i].bytes;
      rest.blocks += totals.peak_by_line[i].blocks;
    }
    if (rest.blocks != 0) Row(rest, totals.peak_bytes, Plural(totals.peak_by_line.size() - shown, "other line"));
    RenderPeakCategories(report_.categories_of(totals), canvas_);
  }

  void Row(const LineBytes& share, std::uint64_t whole, const std::string& text) {
    canvas_.Line(PadLeft(HumanBytes(static_cast<double>(share.bytes)), 11) + "  " +
                 PadLeft(Percent(whole == 0 ? 0 : static_cast<double>(share.bytes) / static_cast<double>(whole)), 7) +
                 "  " + PadLeft(Grouped(share.blocks), 7) + "  " + text);
  }

  void Kinds() {
    if (!WorthTelling(report_.kinds)) return;
    canvas_.Section("KINDS", "what was asked of the driver, by kind of memory");
    canvas_.Dim("  live, at the end    at most   blocks  kind");
    for (const KindUse& use : report_.kinds) {
      const std::string live = use.live_blocks == 0 ? "0 B" : HumanBytes(static_cast<double>(use.live_bytes));
      std::string text(KindPhrase(use.kind));
      if (use.live_blocks_without_size != 0)
        text += "; size not known of " + Plural(use.live_blocks_without_size, "block");
      canvas_.Line(PadLeft(live, 18) + "  " + PadLeft(HumanBytes(static_cast<double>(use.peak_bytes)), 9) + "  " +
                   PadLeft(Grouped(use.blocks), 7) + "  " + text);
    }
  }

  void Pool(const PoolUse& pool) {
    const auto human = [](std::uint64_t bytes) { return HumanBytes(static_cast<double>(bytes)); };
    canvas_.Section("POOL", "device " + std::to_string(pool.device) + ": utilisation " + Percent(pool.utilisation) +
                                " (at most " + human(pool.peak_active_bytes) + " in use, " +
                                human(pool.peak_reserved_bytes) + " held)");
    if (!pool.peak_active_exact) canvas_.Paragraph("Events were lost: more may have been in use at most.");
    const std::string most = pool.idle_exact() ? "" : "at most ";
    const std::string end = human(pool.reserved_bytes) + " held in " + Plural(pool.segments, "segment");
    std::string parts;
    const auto part = [&](std::uint64_t bytes, std::string_view what) {
      if (bytes != 0) parts += (parts.empty() ? ": " : ", ") + human(bytes) + std::string(what);
    };
    part(pool.used_bytes, " used");
    part(pool.quarantined_bytes, " freed but not yet proven unused");
    part(pool.idle_bytes(), " idle");
    canvas_.Field("at the end", pool.reserved_bytes == 0 ? "nothing held" : end + parts);
    if (pool.idle_whole_bytes != 0) {
      canvas_.Field("can go back", std::string(pool.idle_exact() ? "" : "at least ") + human(pool.idle_whole_bytes) +
                                       " idle in whole segments");
    }
    if (pool.idle_pinned_bytes != 0) {
      canvas_.Field("fragmentation", most + Percent(pool.fragmentation()) +
                                         " of what is held: " + human(pool.idle_pinned_bytes) +
                                         " idle beside live blocks, the largest hole " + human(pool.largest_hole));
    }
    const bool explained = std::any_of(report_.fragmentation.begin(), report_.fragmentation.end(), [&](const auto& entry) {
      return entry.owner == MapOwner::kPool && entry.device == pool.device && entry.matters();
    });
    if (const std::string advice = AdviceFor(pool); !advice.empty() && !explained) canvas_.Detail("-> " + advice);
    // 0 also when it is not known: what a block occupied is lost when its context is destroyed at the end.
    if (pool.rounding_bytes() != 0) canvas_.Field("rounding", human(pool.rounding_bytes()) + " of what is used");
  }

  void Failures() {
    if (report_.failures.empty() && !report_.framework_refused()) return;
    canvas_.Section("FAILED ALLOCATIONS");
    for (const FrameworkCache& cache : report_.framework_caches) frameworks_.Refusals(cache);
    std::vector<const Failure*> rows;
    for (const Failure& failure : report_.failures) {
      if (failure.outcome != FailureOutcome::kBehindFramework) rows.push_back(&failure);
    }
    const std::size_t shown = std::min(canvas_.top(), rows.size());
    for (std::size_t i = 0; i < shown; ++i) FailureRow(*rows[i]);
    if (shown < rows.size()) canvas_.Dim("  and " + Plural(rows.size() - shown, "other"));
  }

  void FailureRow(const Failure& failure) {
    canvas_.Line("  " + ShowLine(report_, report_.lines.line(failure.line), canvas_.width() - 4, canvas_.utf8()));
    canvas_.Detail(BytesBoth(failure.figures.request) + " refused with " + ResultName(failure.result) + " at " +
                   HumanTime(failure.first_ns) + StepPhrase(report_, failure.first_ns) +
                   (failure.count > 1 ? "; " + Grouped(failure.count) + " times in all" : ""));
    if (const std::uint32_t caller = report_.lines.CallerOfStack(failure.stack); caller != 0) {
      canvas_.Detail("called by " +
                     ShowLine(report_, report_.lines.line(caller), canvas_.width() - 16, canvas_.utf8()));
    }
    if (failure.result != kOutOfMemoryResult) return;
    if (failure.outcome == FailureOutcome::kRecovered) {
      canvas_.Detail("PyTorch gave back what lay idle in its cache and then got it: the program was not told.");
      return;
    }
    const OomFigures& figures = failure.figures;
    const auto human = [](std::uint64_t bytes) { return HumanBytes(static_cast<double>(bytes)); };
    if (failure.free_known) {
      canvas_.Detail("about " + human(figures.free) + " free, " + human(figures.live) + " live, " +
                     (figures.rounding == 0 ? "" : human(figures.rounding) + " lost to rounding, ") +
                     human(figures.idle) + " idle in the pool, " + human(figures.outside()) + " outside, of " +
                     human(figures.total) +
                     " (an estimate: from what was free at the start, in the driver's pages of 2 MiB)");
    } else {
      canvas_.Detail(human(figures.live) + " live, " + human(figures.idle) +
                     " idle in the pool; what the driver had free is not known");
    }
    if (const std::string roles = RolesBeside(failure.context); !roles.empty()) canvas_.Detail("live then: " + roles);
    const std::string cause = CauseText(report_, failure.context, figures.request);
    canvas_.Detail(cause.empty() ? VerdictText(failure) : "Cause: " + cause + ".");
    if (const std::string advice = AdviceFor(report_, failure); !advice.empty()) canvas_.Detail("-> " + advice);
  }

  static std::string ResultName(std::uint16_t result) {
    switch (result) {
      case 1:
        return "CUDA_ERROR_INVALID_VALUE";
      case 2:
        return "CUDA_ERROR_OUT_OF_MEMORY";
      case 3:
        return "CUDA_ERROR_NOT_INITIALIZED";
      case 4:
        return "CUDA_ERROR_DEINITIALIZED";
      case 201:
        return "CUDA_ERROR_INVALID_CONTEXT";
      case 801:
        return "CUDA_ERROR_NOT_SUPPORTED";
      case 900:
        return "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED";
      default:
        return "CUDA error " + std::to_string(result);
    }
  }

  // What is free is an estimate: others may have come and gone since the program's first allocation.
  std::string VerdictText(const Failure& failure) const {
    const OomFigures& figures = failure.figures;
    const auto human = [](std::uint64_t bytes) { return HumanBytes(static_cast<double>(bytes)); };
    const std::string hidden =
        report_.unobserved_tensors() && !failure.scope.host ? " What is idle inside PyTorch's cache is not known." : "";
    switch (failure.verdict) {
      case OomVerdict::kCapacity:
        return "Capacity: even with all idle memory it would not have fitted." + hidden;
      case OomVerdict::kOtherOwner:
        return "Another owner, probably: " + human(figures.outside()) +
               " were taken before this program's first allocation there (other processes, its own CUDA context).";
      case OomVerdict::kIdleInPool:
        return "Idle memory of the pool could have served it: fragmentation, or memory not given back.";
      case OomVerdict::kUnexplained:
        return "Not enough evidence: by this estimate " + human(figures.free) +
               " were free, enough for it. A cap (of the process, MIG, MPS, a container), a refusal of the driver, or "
               "another process that took it since.";
      case OomVerdict::kNotMemory:
        break;
    }
    return "No verdict: the figures of the device are not known." + hidden;
  }

  void NotObservedList() {
    canvas_.Section("NOT OBSERVED");
    for (const NotObserved& entry : report_.not_observed) {
      canvas_.Item(entry.text, entry.kind <= ObservationKind::kUnseen ? TextColor::kWarn : TextColor::kPlain);
    }
  }

  const Report& report_;
  const Snapshot& snapshot_;
  TextCanvas& canvas_;
  FindingText findings_;
  FrameworkText frameworks_;
};

}  // namespace

std::string FolderOf(const Report& report, const std::string& file) {
  const std::string& working = report.snapshot->process.working_directory;
  if (!working.empty() && file.starts_with(working + "/")) return working;
  return report.lines.common_folder();
}

std::string ShowLine(const Report& report, const CodeLine& line, std::size_t width, bool utf8) {
  if (line.basis == LineBasis::kFunction) {
    if (line.function.ends_with(" workspace")) return Clip(line.function, width, utf8);  // a name, see WorkspaceOf
    const std::string module = line.module.empty() ? "" : " in " + line.module.substr(line.module.rfind('/') + 1);
    const std::size_t room = width > Columns(module) + 20 ? width - Columns(module) : 20;
    return Clip(ShortFunction(line.function, room) + module, width, utf8);
  }
  if (line.basis != LineBasis::kLine) return Clip(Describe(line), width, utf8);
  const std::string function = line.function.empty() ? "" : "  " + ShortFunction(line.function, 40);
  const std::string number = ":" + std::to_string(line.line);
  const std::size_t taken = Columns(number) + Columns(function);
  const std::size_t room = width > taken + 20 ? width - taken : 20;
  return Clip(ShortPath(line.file, FolderOf(report, line.file), room, utf8) + number + function, width, utf8);
}

void WriteText(const Report& report, TextCanvas& canvas) { Renderer(report, canvas).Render(); }

std::string RenderText(const Report& report, const TextOptions& options) {
  TextCanvas canvas(options);
  WriteText(report, canvas);
  return canvas.Take();
}

namespace {

std::string SummaryWithoutLeaks(const Report& report) {
  if (report.verdict == Verdict::kNothingSeen) return "CUDA was used, but no allocation was seen";
  std::string text = CacheGrowthText(report);
  if (text.empty()) {
    text = report.record_incomplete() ? "no verdict on leaks: the record is incomplete; none in what is left of it"
                                      : "no leaks";
    if (const std::string cause = FirstCauseText(report); !cause.empty()) text = cause + "; no line leaks";
    if (report.unobserved_tensors()) text += " in what was observed (tensors inside PyTorch's cache were not)";
  }
  for (const std::string& piled : {PiledUpText(report), PiledUpObjectsText(report)})
    text += piled.empty() ? "" : "; " + piled;
  return text;
}

}  // namespace

namespace {

// PyTorch's own error, where the driver's refusal (told already) is not the same thing.
std::string RefusalSummary(const Report& report, const TextOptions& options) {
  if (std::any_of(report.failures.begin(), report.failures.end(), [](const Failure& failure) {
        return failure.result == kOutOfMemoryResult && failure.outcome != FailureOutcome::kRecovered;
      })) {
    return "";
  }
  for (const FrameworkCache& cache : report.framework_caches) {
    if (cache.refusals.empty()) continue;
    const FrameworkRefusal& first = cache.refusals.front();
    const CodeLine& line = report.lines.line(report.lines.OfStack(first.stack));
    return "out of memory: " + BytesBoth(first.request) + " refused by PyTorch " +
           std::string(line.basis == LineBasis::kLine ? "at " : "in ") + ShowLine(report, line, 60, options.utf8) +
           "\n";
  }
  return "";
}

}  // namespace

std::string RenderSummary(const Report& report, const TextOptions& options) {
  std::string text;
  std::uint64_t most = 0;
  for (const ScopeTotals& totals : report.totals) most = std::max(most, totals.peak_bytes);
  for (const ScopeTotals& totals : report.totals) {
    // A few pinned bytes are in every PyTorch process.
    if (totals.peak_bytes == 0 || (totals.scope.host && totals.peak_bytes < most / 100)) continue;
    text += "peak of " + ScopeName(totals.scope) + ": " + BytesBoth(totals.peak_bytes) +
            StepPhrase(report, totals.peak_ns) + "\n";
  }
  for (const Failure& failure : report.failures) {
    if (failure.result != kOutOfMemoryResult || failure.outcome == FailureOutcome::kRecovered) continue;
    text += "out of memory: " + BytesBoth(failure.figures.request) + " refused " +
            std::string(report.lines.line(failure.line).basis == LineBasis::kLine ? "at " : "in ") +
            ShowLine(report, report.lines.line(failure.line), 60, options.utf8) + "\n";
    break;
  }
  text += RefusalSummary(report, options);
  const std::uint64_t leaks = report.leak_count();
  if (leaks != 0) {
    const LeakFinding& worst = report.findings.front();
    text += (leaks == 1 ? "1 line leaks, " : Grouped(leaks) + " lines leak, ") +
            HumanBytes(static_cast<double>(report.leaked_bytes())) +
            "; worst: " + ShowLine(report, report.lines.line(worst.line), 60, options.utf8) +
            (worst.caller == 0 ? "" : " " + CallersText(report, worst, 70, options.utf8)) + ", " + GrowthPhrase(worst);
    if (const std::string piled = PiledUpText(report); !piled.empty()) text += "; " + piled;
  } else {
    text += SummaryWithoutLeaks(report);
  }
  for (const NotObserved& entry : report.not_observed) {
    if (entry.kind != ObservationKind::kLoss || entry.code == "running" || entry.code == "killed" ||
        entry.code == "quit" || entry.code == "end_unknown")
      continue;
    text += "\nincomplete: " + entry.text;
    break;
  }
  const auto unseen = [](const NotObserved& entry) { return entry.kind == ObservationKind::kUnseen; };
  const auto first = std::find_if(report.not_observed.begin(), report.not_observed.end(), unseen);
  if (first != report.not_observed.end()) {
    const auto count = std::count_if(first, report.not_observed.end(), unseen);
    text += "\nnot observed: " + first->text + (count > 1 ? " (and more: see the report)" : "");
  }
  return text;
}

}  // namespace cuheap::analysis
