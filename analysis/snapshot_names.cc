#include "analysis/snapshot_names.h"

#include <array>

namespace cuheap::analysis {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::array kFrameKinds = {"none"sv, "native"sv, "python"sv};
constexpr std::array kAllocationKinds = {
    "none"sv,        "device"sv,       "pitched"sv,         "managed"sv,         "stream_ordered"sv,
    "from_pool"sv,   "array"sv,        "mipmapped_array"sv, "virtual"sv,         "imported"sv,
    "module_data"sv, "pool_segment"sv, "host_pinned"sv,     "host_registered"sv, "host_virtual"sv,
    "tensor"sv,      "multicast"sv,    "external"sv,        "external_array"sv,  "imported_virtual"sv};
constexpr std::array kAllocators = {"program"sv, "pytorch"sv, "cuheap"sv};
constexpr std::array kEventTypes = {"none"sv,
                                    "allocate"sv,
                                    "free"sv,
                                    "free_failed"sv,
                                    "allocate_failed"sv,
                                    "synchronize"sv,
                                    "context_destroyed"sv,
                                    "segment_allocate"sv,
                                    "segment_free"sv,
                                    "step_mark"sv,
                                    "framework_out_of_memory"sv,
                                    "map"sv,
                                    "unmap"sv,
                                    "driver_call"sv};
constexpr std::array kDriverCallWords = {"allocate"sv,   "free"sv,      "map"sv,      "pin_host"sv,
                                         "unpin_host"sv, "free_wait"sv, "pool_wait"sv};

// A value added to an enum without its word would be written as "unknown".
static_assert(kFrameKinds.size() == static_cast<std::size_t>(FrameKind::kPython) + 1);
static_assert(kAllocationKinds.size() == static_cast<std::size_t>(AllocationKind::kImportedVirtual) + 1);
static_assert(kAllocators.size() == static_cast<std::size_t>(Allocator::kCuheap) + 1);
static_assert(kEventTypes.size() == static_cast<std::size_t>(EventType::kDriverCall) + 1);
static_assert(kDriverCallWords.size() == kDriverCalls);

}  // namespace

template <>
std::span<const std::string_view> Words<FrameKind>() {
  return kFrameKinds;
}
template <>
std::span<const std::string_view> Words<AllocationKind>() {
  return kAllocationKinds;
}
template <>
std::span<const std::string_view> Words<Allocator>() {
  return kAllocators;
}
template <>
std::span<const std::string_view> Words<EventType>() {
  return kEventTypes;
}

template <>
std::span<const std::string_view> Words<DriverCall>() {
  return kDriverCallWords;
}

bool IsDeviceMemory(AllocationKind kind) {
  return (kind >= AllocationKind::kDevice && kind <= AllocationKind::kVirtual) || kind == AllocationKind::kModuleData;
}

}  // namespace cuheap::analysis
