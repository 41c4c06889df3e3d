#include "analysis/ranks/rank_devices.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace cuheap::analysis {
namespace {

using DeviceKey = std::pair<std::string, std::string>;  // uuid, host if simulated

DeviceKey KeyOf(const RankSummary& rank, const RankDevice& device) {
  return {device.uuid, rank.simulated ? rank.host : std::string()};
}

// A change of what one user holds.
struct Change {
  std::int64_t realtime_ns = 0;
  std::size_t user = 0;  // index into DeviceUse::users
  std::uint64_t bytes = 0;
};

void MeasureTogether(const std::vector<RankSummary>& ranks, DeviceUse& use) {
  std::vector<Change> changes;
  for (std::size_t i = 0; i < use.users.size(); ++i) {
    const RankSummary& rank = ranks[use.users[i].rank];
    for (const CurvePoint& point : rank.devices[use.users[i].device].curve)
      changes.push_back({rank.start_realtime_ns + point.time_ns, i, point.bytes});
    changes.push_back({rank.end_realtime_ns(), i, 0});
  }
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return std::tie(a.realtime_ns, a.bytes, a.user) < std::tie(b.realtime_ns, b.bytes, b.user);
  });
  std::vector<std::uint64_t> held(use.users.size(), 0);
  std::uint64_t sum = 0;
  for (const Change& change : changes) {
    sum += change.bytes - held[change.user];
    held[change.user] = change.bytes;
    if (sum <= use.together_bytes) continue;
    use.together_bytes = sum;
    use.together_realtime_ns = change.realtime_ns;
    for (std::size_t i = 0; i < use.users.size(); ++i) use.users[i].bytes = held[i];
  }
}

}  // namespace

std::vector<DeviceUse> FindSharedDevices(const std::vector<RankSummary>& ranks) {
  std::map<DeviceKey, DeviceUse> uses;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    for (std::size_t j = 0; j < ranks[i].devices.size(); ++j) {
      const RankDevice& device = ranks[i].devices[j];
      if (device.uuid.empty() || device.peak_bytes == 0) continue;
      DeviceUse& use = uses[KeyOf(ranks[i], device)];
      if (use.users.empty())
        use = {device.uuid, device.name, ranks[i].host, device.ordinal, device.capacity_bytes, {}, 0, 0};
      use.users.push_back({i, j, 0});
    }
  }
  std::vector<DeviceUse> shared;
  for (auto& [key, use] : uses) {
    if (use.users.size() < 2) continue;
    MeasureTogether(ranks, use);
    shared.push_back(std::move(use));
  }
  std::sort(shared.begin(), shared.end(), [](const DeviceUse& a, const DeviceUse& b) {
    return std::tie(a.host, a.ordinal, a.uuid) < std::tie(b.host, b.ordinal, b.uuid);
  });
  return shared;
}

std::uint64_t HeldAt(const RankSummary& rank, const RankDevice& device, std::int64_t realtime_ns) {
  const std::int64_t time_ns = realtime_ns - rank.start_realtime_ns;
  if (time_ns > rank.duration_ns) return 0;
  const auto after = std::upper_bound(device.curve.begin(), device.curve.end(), time_ns,
                                      [](std::int64_t time, const CurvePoint& point) { return time < point.time_ns; });
  return after == device.curve.begin() ? 0 : std::prev(after)->bytes;
}

std::vector<DeviceUser> HoldersBeside(const std::vector<RankSummary>& ranks, std::size_t rank) {
  std::vector<DeviceUser> holders;
  const RankSummary& refused = ranks[rank];
  if (!refused.refusal) return holders;
  const auto own = std::find_if(refused.devices.begin(), refused.devices.end(),
                                [&](const RankDevice& device) { return device.ordinal == refused.refusal->device; });
  if (own == refused.devices.end() || own->uuid.empty()) return holders;
  const std::int64_t when = refused.start_realtime_ns + refused.refusal->time_ns;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i == rank) continue;
    for (std::size_t j = 0; j < ranks[i].devices.size(); ++j) {
      if (KeyOf(ranks[i], ranks[i].devices[j]) != KeyOf(refused, *own)) continue;
      const std::uint64_t bytes = HeldAt(ranks[i], ranks[i].devices[j], when);
      if (bytes != 0) holders.push_back({i, j, bytes});
    }
  }
  std::sort(holders.begin(), holders.end(), [](const DeviceUser& a, const DeviceUser& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.rank < b.rank;
  });
  return holders;
}

}  // namespace cuheap::analysis
