#include "analysis/reports/turnover_text.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "analysis/reports/text_format.h"
#include "analysis/snapshot_names.h"

namespace cuheap::analysis {
namespace {

std::string Human(std::uint64_t bytes) { return HumanBytes(static_cast<double>(bytes)); }

// "4", "2.5".
std::string Mean(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f", value);
  std::string result(text);
  return result.ends_with(".0") ? result.substr(0, result.size() - 2) : result;
}

std::uint64_t PeakOf(const Report& report, const Scope& scope) {
  for (const ScopeTotals& totals : report.totals) {
    if (totals.scope == scope) return totals.peak_bytes;
  }
  return 0;
}

// Nothing where there is but one device.
std::string ScopeWords(const Report& report, const Scope& scope) {
  if (scope.host) return " (pinned host memory)";
  if (report.snapshot->devices.size() < 2) return "";
  return scope.device == kUnknownDevice ? " (on an unknown device)" : " (on device " + std::to_string(scope.device) + ")";
}

void ChurnSection(const Report& report, TextCanvas& canvas) {
  if (report.churn.empty()) return;
  std::uint64_t calls = 0;
  for (const Churn& churn : report.churn) calls += churn.saved_calls();
  canvas.Section("CHURN", Grouped(calls) + " allocations of " + Plural(report.churn.size(), "line") +
                              " could be saved: freed and asked for again, in the same size");
  canvas.Line();
  canvas.Dim("  a step    pairs      size   at once  line");
  const std::size_t shown = std::min(canvas.top(), report.churn.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const Churn& churn = report.churn[i];
    canvas.Line(PadLeft(churn.steps == 0 ? "-" : Mean(churn.pairs_per_step), 8) + PadLeft(Grouped(churn.pairs), 9) +
                PadLeft(Human(churn.bytes), 10) + PadLeft(Grouped(churn.at_once), 10) + "  " +
                ShowLine(report, report.lines.line(churn.line), canvas.width() - 41, canvas.utf8()) +
                (churn.scope.host ? " (pinned host memory)" : ""));
  }
  if (shown < report.churn.size()) canvas.Dim("  and " + Plural(report.churn.size() - shown, "other line"));
  canvas.Detail("-> " + AdviceFor(report.churn.front()));
}

void LateFreeSection(const Report& report, TextCanvas& canvas) {
  std::vector<const LateFree*> rows;
  std::uint64_t bytes = 0;
  for (const LateFree& late : report.late_frees) {
    if (late.peak_bytes * 100 < PeakOf(report, late.scope)) continue;
    rows.push_back(&late);
    bytes += late.peak_bytes;
  }
  if (rows.empty()) return;
  canvas.Section("LATE FREES", Human(bytes) + " at the peak were left behind by an earlier step");
  canvas.Line();
  canvas.Dim("  at the peak   blocks    a step  line");
  const std::size_t shown = std::min(canvas.top(), rows.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const LateFree& late = *rows[i];
    canvas.Line(PadLeft(Human(late.peak_bytes), 13) + PadLeft(Grouped(late.peak_blocks), 9) +
                PadLeft(Human(late.bytes), 10) + "  " +
                ShowLine(report, report.lines.line(late.line), canvas.width() - 36, canvas.utf8()));
    canvas.Dim(std::string(34, ' ') + "freed only in the next step, in " + Plural(late.steps, "step") +
               ScopeWords(report, late.scope));
  }
  if (shown < rows.size()) canvas.Dim("  and " + Plural(rows.size() - shown, "other line"));
  canvas.Detail("-> " + AdviceForLateFrees());
}

nlohmann::ordered_json ScopeJson(const Scope& scope) {
  if (scope.host) return {{"kind", "host"}};
  return {{"kind", scope.tensors ? "tensors" : "device"},
          {"device", scope.device == kUnknownDevice ? nlohmann::ordered_json() : nlohmann::ordered_json(scope.device)}};
}

}  // namespace

std::string AdviceFor(const Churn& churn) {
  const std::string buffers = churn.at_once == 1
                                  ? "One buffer of " + Human(churn.bytes)
                                  : Grouped(churn.at_once) + " buffers of " + Human(churn.bytes) + " each";
  std::string advice = buffers + ", made before the loop and kept, would do: " + Grouped(churn.saved_calls()) + " of " +
                       Grouped(churn.pairs) + " allocations and as many frees less.";
  if (churn.scope.host) return advice + " Pinning costs time for every page, each time.";
  if (churn.served == churn.pairs) {
    advice +=
        " cuheap's pool served all of them; without it each is a call of the driver, and each cudaFree waits for the "
        "device.";
  } else if (churn.served == 0) {
    advice += " Each was a call of the driver.";
  }
  return advice;
}

std::string AdviceForLateFrees() {
  return "Free it at the end of the step that made it (Python: del it; gradients: zero_grad() before the forward pass).";
}

void TurnoverSections(const Report& report, TextCanvas& canvas) {
  LateFreeSection(report, canvas);
  ChurnSection(report, canvas);
}

nlohmann::ordered_json ChurnJson(const Report& report, const Churn& churn) {
  return {{"scope", ScopeJson(churn.scope)},
          {"line", Describe(report.lines.line(churn.line))},
          {"kind", ToString(churn.kind)},
          {"pairs", churn.pairs},
          {"served", churn.served},
          {"bytes", churn.bytes},
          {"at_once", churn.at_once},
          {"steps", churn.steps},
          {"pairs_per_step", churn.pairs_per_step},
          {"kept_bytes", churn.kept_bytes()},
          {"saved_calls", churn.saved_calls()},
          {"advice", AdviceFor(churn)}};
}

nlohmann::ordered_json LateFreeJson(const Report& report, const LateFree& late) {
  return {{"scope", ScopeJson(late.scope)},
          {"line", Describe(report.lines.line(late.line))},
          {"blocks", late.blocks},
          {"steps", late.steps},
          {"bytes_per_step", late.bytes},
          {"peak_blocks", late.peak_blocks},
          {"peak_bytes", late.peak_bytes},
          {"advice", AdviceForLateFrees()}};
}

}  // namespace cuheap::analysis
