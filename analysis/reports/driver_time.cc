#include "analysis/reports/driver_time.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "analysis/snapshot_names.h"

namespace cuheap::analysis {

const DriverCallUse* DriverUse::of(DriverCall call) const {
  for (const DriverCallUse& use : calls) {
    if (use.call == call) return &use;
  }
  return nullptr;
}

DriverUse MeasureDriverTime(const Snapshot& snapshot, const LineTable& lines) {
  DriverUse result;
  result.known = !snapshot.driver_time.empty();
  std::array<std::map<std::uint32_t, DriverLine>, kDriverCalls> by_line;
  const Events& events = snapshot.events;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events.type[i] != EventType::kDriverCall || events.address[i] >= kDriverCalls) continue;
    const std::uint32_t line = lines.OfStack(events.stack[i]);
    DriverLine& share = by_line[events.address[i]][line];
    share.line = line;
    ++share.calls;
    share.total_ns += events.bytes[i];
    share.longest_ns = std::max(share.longest_ns, events.bytes[i]);
  }
  for (const DriverTime& time : snapshot.driver_time) {
    const auto call = FromString<DriverCall>(time.call);
    if (!call || time.count == 0) continue;  // a later version may know more calls
    DriverCallUse use{*call, time.count, time.total_ns, time.longest_ns, {}};
    for (const auto& [line, share] : by_line[static_cast<std::size_t>(*call)]) use.lines.push_back(share);
    std::sort(use.lines.begin(), use.lines.end(), [](const DriverLine& a, const DriverLine& b) {
      return std::tie(b.total_ns, a.line) < std::tie(a.total_ns, b.line);
    });
    result.total_ns += use.total_ns;
    result.calls.push_back(std::move(use));
  }
  std::stable_sort(result.calls.begin(), result.calls.end(),
                   [](const DriverCallUse& a, const DriverCallUse& b) { return a.total_ns > b.total_ns; });
  if (snapshot.process.duration_ns > 0)
    result.share = static_cast<double>(result.total_ns) / static_cast<double>(snapshot.process.duration_ns);
  return result;
}

}  // namespace cuheap::analysis
