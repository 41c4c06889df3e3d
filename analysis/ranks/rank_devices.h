// Devices that several processes of a run shared, and what each held there when.
#ifndef CUHEAP_ANALYSIS_RANKS_RANK_DEVICES_H_
#define CUHEAP_ANALYSIS_RANKS_RANK_DEVICES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analysis/ranks/rank_summary.h"

namespace cuheap::analysis {

struct DeviceUser {
  std::size_t rank = 0;     // index into the ranks
  std::size_t device = 0;   // index into its devices
  std::uint64_t bytes = 0;  // that it held when most was held together
};

// One physical device. Devices are the same if their uuid is; those of the simulated CUDA have the same uuids on every
// host, so there the host counts too.
struct DeviceUse {
  std::string uuid, name, host;  // host: of the first user
  std::uint32_t ordinal = 0;     // as the first user sees it
  std::uint64_t capacity_bytes = 0;
  std::vector<DeviceUser> users;     // by rank
  std::uint64_t together_bytes = 0;  // most held by all at once; at most this much, since curves are thinned
  std::int64_t together_realtime_ns = 0;
};

// Only devices with several users; by host, ordinal and uuid.
std::vector<DeviceUse> FindSharedDevices(const std::vector<RankSummary>& ranks);

// What was held of a device at a moment, at most: 0 before its first and after its last point.
std::uint64_t HeldAt(const RankSummary& rank, const RankDevice& device, std::int64_t realtime_ns);

// Others that held memory of the device on which `rank` was refused first, then. Most bytes first.
std::vector<DeviceUser> HoldersBeside(const std::vector<RankSummary>& ranks, std::size_t rank);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_RANKS_RANK_DEVICES_H_
