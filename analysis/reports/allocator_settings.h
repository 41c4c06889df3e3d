// What other settings of PyTorch's allocator would have held from the driver: its requests are replayed in a model of
// it (analysis/torch_cache/).
//
// Note [Believed]
// The model is believed for a run if, with the settings that the run had, it holds at most what the run held at most,
// within 2 %. What it leaves out (several streams where the record does not tell them, blocks that wait for another
// stream, pools of captured graphs) makes it miss that; then nothing is promised, and the report says so.
//
// Note [Requests]
// A record of cuheap has what each tensor took, which in large segments may be up to 1 MiB more than was asked for.
// Replayed with the same settings it takes the same. Before other settings are tried, likely requests are put in place
// of that (Note [Took the whole] in replay.h).
#ifndef CUHEAP_ANALYSIS_REPORTS_ALLOCATOR_SETTINGS_H_
#define CUHEAP_ANALYSIS_REPORTS_ALLOCATOR_SETTINGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/reports/blocks.h"
#include "analysis/reports/framework_cache.h"
#include "analysis/snapshot.h"

namespace cuheap::analysis {

enum class SettingsCheck : std::uint8_t {
  kReproduced,     // the model held what the run held
  kNotReproduced,  // it did not
  kLittleIdle,     // not looked at: most that was held was in tensors, so that no setting would save a twentieth
  kExpandable,     // not looked at: expandable segments are on already
  kIncomplete,     // not looked at: events are missing
};

struct SettingOption {
  std::string set;          // "expandable_segments:True"
  std::uint64_t peak = 0;   // bytes held at most with it
  std::uint64_t saved = 0;  // of the most that was held
  // Of the requests that were refused, those that would have fitted into the most that was held.
  std::uint32_t fitting = 0;
};

// Of PyTorch's cache on one device.
struct AllocatorSettings {
  std::uint32_t device = 0;
  std::string recorded;  // the settings that the run had, as PyTorch was given them; empty: none that is known
  SettingsCheck check = SettingsCheck::kIncomplete;
  std::uint64_t held_peak = 0, tensor_peak = 0;
  std::uint64_t replayed_peak = 0;  // held at most in the replay with the recorded settings; 0: there was none
  std::uint32_t refused = 0;        // requests; of many only the first are looked at
  // Each alone, that save a twentieth and 20 MiB at least, or with which a request would not have been refused; most
  // saved first. Only if `check` is kReproduced.
  std::vector<SettingOption> options;
};

// caches: DescribeFrameworkCaches of the same snapshot. Only of devices on which single tensors were seen.
std::vector<AllocatorSettings> TryAllocatorSettings(const Snapshot& snapshot, const Blocks& blocks,
                                                    const std::vector<FrameworkCache>& caches);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_ALLOCATOR_SETTINGS_H_
