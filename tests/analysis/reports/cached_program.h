// A program whose PyTorch allocator is played by hand: segments and tensors lie where the test says.
#ifndef CUHEAP_TESTS_ANALYSIS_REPORTS_CACHED_PROGRAM_H_
#define CUHEAP_TESTS_ANALYSIS_REPORTS_CACHED_PROGRAM_H_

#include <cstdint>

#include "tests/analysis/reports/synthetic.h"

namespace cuheap::analysis {

inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
inline constexpr std::uint16_t kPyTorch = 2;  // journal::kCallerIsPyTorch
inline constexpr std::uint64_t kBase = 0x10000000;

class CachedProgram : public SyntheticProgram {
 public:
  CachedProgram() : make_(Line("train.cc", 10, "Forward")), keep_(Line("train.cc", 20, "Log")) {}

  std::uint64_t PlacedBlock(std::uint64_t address, std::uint64_t bytes, AllocationKind kind, std::uint32_t stack) {
    const std::uint64_t id = Malloc(stack, bytes, kind, kPyTorch);
    Place(id, address);
    raw().events.address.SetBack(address);
    return id;
  }
  std::uint64_t Held(std::uint64_t address, std::uint64_t bytes) {
    return PlacedBlock(address, bytes, AllocationKind::kDevice, make_);
  }
  std::uint64_t Tensor(std::uint64_t address, std::uint64_t bytes) {
    return PlacedBlock(address, bytes, AllocationKind::kTensor, make_);
  }
  std::uint64_t KeptTensor(std::uint64_t address, std::uint64_t bytes) {
    return PlacedBlock(address, bytes, AllocationKind::kTensor, keep_);
  }
  void OutOfMemory(std::uint64_t asked, std::uint64_t tensors, std::uint64_t held) {
    LiveAllocation told;
    told.address = tensors;
    told.stream = held;
    told.bytes = asked;
    told.stack = make_;
    Raw(EventType::kFrameworkOutOfMemory, told);
  }
  // Maps the physical block (by id) or takes the mapping away.
  void Map(std::uint64_t id, std::uint64_t address, std::uint64_t bytes, bool mapped = true) {
    LiveAllocation mapping;
    mapping.id = id;
    mapping.address = address;
    mapping.bytes = bytes;
    mapping.kind = AllocationKind::kVirtual;
    Raw(mapped ? EventType::kMap : EventType::kUnmap, mapping);
  }
  std::uint64_t Events() { return raw().events.size(); }

 private:
  void Raw(EventType type, const LiveAllocation& row) {
    Mark();  // an event of its own, then made into this one
    analysis::Events& events = raw().events;
    events.type.SetBack(type);
    events.id.SetBack(row.id);
    events.address.SetBack(row.address);
    events.bytes.SetBack(row.bytes);
    events.stream.SetBack(row.stream);
    events.stack.SetBack(row.stack);
    events.kind.SetBack(row.kind);
    events.flags.SetBack(kPyTorch);
  }
  std::uint32_t make_, keep_;
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_TESTS_ANALYSIS_REPORTS_CACHED_PROGRAM_H_
