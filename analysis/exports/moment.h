// Of which moment an export of stacks tells.
#ifndef CUHEAP_ANALYSIS_EXPORTS_MOMENT_H_
#define CUHEAP_ANALYSIS_EXPORTS_MOMENT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cuheap::analysis {

enum class MomentKind : std::uint8_t {
  kPeak,        // of each device: of its tensors where a framework reported them, else of its memory
  kDevicePeak,  // of each device: when most of its memory was held, a framework's cache as a whole included
  kEnd,         // see Note [The end] in reports/blocks.h
  kLeaked,      // no moment: the blocks of those findings that the report calls leaks
  kTime,
};

struct Moment {
  MomentKind kind = MomentKind::kPeak;
  std::int64_t time_ns = 0;  // kTime: since the process started
};

// "peak", "device-peak", "end", "leaked", or a time since the process started: "1.5s", "250ms", "80us", "7ns"; without
// a unit it is seconds. Nothing for any other text.
std::optional<Moment> ParseMoment(std::string_view text);
// "at the peak", "1.500000000 s after the start", ...
std::string Describe(const Moment& moment);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_EXPORTS_MOMENT_H_
