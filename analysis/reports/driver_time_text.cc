#include "analysis/reports/driver_time_text.h"

#include <nlohmann/json.hpp>
#include <string_view>

#include "analysis/reports/text_format.h"
#include "analysis/snapshot_names.h"

namespace cuheap::analysis {
namespace {

std::string Time(std::uint64_t ns) { return HumanTime(static_cast<std::int64_t>(ns)); }

std::string_view CallText(DriverCall call) {
  switch (call) {
    case DriverCall::kAllocate:
      return "allocating device memory";
    case DriverCall::kFree:
      return "freeing, which waits for the device";
    case DriverCall::kMap:
      return "mapping virtual memory";
    case DriverCall::kPinHost:
      return "pinning host memory";
    case DriverCall::kUnpinHost:
      return "unpinning host memory";
    case DriverCall::kFreeWait:
      return "waiting for the device in a free, as the driver does";
    case DriverCall::kPoolWait:
      break;
  }
  return "waiting until freed memory can be used again, in cuheap's pool";
}

std::uint64_t TotalOf(const DriverUse& use, DriverCall call) {
  const DriverCallUse* of = use.of(call);
  return of == nullptr ? 0 : of->total_ns;
}

}  // namespace

std::string AdviceForDriverTime(const Report& report) {
  const DriverUse& use = report.driver_use;
  if (!use.matters()) return "";
  const std::uint64_t pinning = TotalOf(use, DriverCall::kPinHost) + TotalOf(use, DriverCall::kUnpinHost);
  const std::uint64_t waits = TotalOf(use, DriverCall::kFreeWait);
  if (2 * pinning > use.total_ns) return "Pin host memory once and use it again: pinning costs time for every page.";
  if (2 * waits > use.total_ns) {
    return "Frees between kernels hold the program up until the device is idle: free after the loop, use one buffer "
           "again, or free in stream order (cudaFreeAsync).";
  }
  if (2 * TotalOf(use, DriverCall::kPoolWait) > use.total_ns) {
    return "Memory that is freed while the device works on it can't be used at once: use one buffer again, or allocate "
           "in stream order (cudaMallocAsync).";
  }
  if (report.snapshot->configuration.contains("CUHEAP_MODE") &&
      report.snapshot->configuration.at("CUHEAP_MODE") == "observe")
    return "Nothing was served by cuheap's pool (--observe): without that option most of these calls go away.";
  return "Allocate once and use it again: what comes and goes every step is best kept.";
}

void DriverTimeSection(const Report& report, TextCanvas& canvas) {
  const DriverUse& use = report.driver_use;
  if (!use.matters()) return;
  canvas.Section("DRIVER TIME",
                 Time(use.total_ns) + " in the driver's calls for memory, " + Percent(use.share) + " of the run");
  if (report.snapshot->simulated) canvas.Paragraph("This is the simulated driver's time, not a GPU's.");
  canvas.Line();
  canvas.Dim("     calls       total     longest  in");
  for (const DriverCallUse& call : use.calls) {
    if (call.total_ns * 100 < use.total_ns) continue;
    canvas.Line(PadLeft(Grouped(call.count), 10) + PadLeft(Time(call.total_ns), 12) +
                PadLeft(Time(call.longest_ns), 12) + "  " + std::string(CallText(call.call)));
    if (call.lines.empty()) continue;
    const DriverLine& most = call.lines.front();
    canvas.Dim(std::string(36, ' ') + "most at " +
               ShowLine(report, report.lines.line(most.line), canvas.width() - 80, canvas.utf8()) + ": " +
               Time(most.total_ns) + " in " + Plural(most.calls, "slow call"));
  }
  if (const std::string advice = AdviceForDriverTime(report); !advice.empty()) canvas.Detail("-> " + advice);
}

nlohmann::ordered_json DriverTimeJson(const Report& report) {
  using Json = nlohmann::ordered_json;
  const DriverUse& use = report.driver_use;
  if (!use.known) return Json();
  Json json = {{"total_ns", use.total_ns},
               {"share", use.share},
               {"simulated", report.snapshot->simulated},
               {"calls", Json::array()}};
  if (const std::string advice = AdviceForDriverTime(report); !advice.empty()) json["advice"] = advice;
  for (const DriverCallUse& call : use.calls) {
    Json entry = {{"call", ToString(call.call)},
                  {"count", call.count},
                  {"total_ns", call.total_ns},
                  {"longest_ns", call.longest_ns},
                  {"slow_by_line", Json::array()}};
    for (const DriverLine& line : call.lines) {
      entry["slow_by_line"].push_back({{"line", Describe(report.lines.line(line.line))},
                                       {"calls", line.calls},
                                       {"total_ns", line.total_ns},
                                       {"longest_ns", line.longest_ns}});
    }
    json["calls"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace cuheap::analysis
