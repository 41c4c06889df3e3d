// The pieces of a PyTorch memory snapshot, as its pickle holds them; torch_snapshot.h makes the model of them.
#ifndef CUHEAP_ANALYSIS_TORCH_TRACE_H_
#define CUHEAP_ANALYSIS_TORCH_TRACE_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analysis/interner.h"
#include "analysis/pickle_reader.h"
#include "analysis/snapshot.h"

namespace cuheap::analysis {

enum class TorchAction : std::uint8_t {
  kUnknown,
  kAlloc,
  kFreeRequested,
  kFreeCompleted,
  kSegmentAlloc,
  kSegmentFree,
  kSegmentMap,
  kSegmentUnmap,
  kSnapshot,
  kOutOfMemory,
};

struct TorchEvent {
  TorchAction action = TorchAction::kUnknown;
  std::uint32_t stack = 0;    // of the model
  std::uint64_t address = 0;  // kOutOfMemory: what the driver said was free
  std::uint64_t bytes = 0, stream = 0;
  std::int64_t time_us = 0;  // since 1970; 0: not known
};

enum class TorchBlockState : std::uint8_t { kInactive, kActive, kPendingFree };

struct TorchBlock {
  TorchBlockState state = TorchBlockState::kInactive;
  std::uint32_t stack = 0;
  std::uint64_t address = 0, bytes = 0, requested = 0;
};

struct TorchSegment {
  std::uint32_t device = 0, stack = 0;
  bool expandable = false, headers_agree = true;
  bool private_pool = false;                      // of a captured graph, or of a MemPool: serves tensors of that alone
  std::uint64_t pool_first = 0, pool_second = 0;  // its number
  std::uint64_t address = 0, bytes = 0, stream = 0;
  std::vector<TorchBlock> blocks;  // by address
};

// Everything of the file. Frames and stacks go straight into the tables of `snapshot`.
class TorchTrace final : public PickleVisitor {
 public:
  explicit TorchTrace(Snapshot& snapshot);

  // Called by the pickle reader: events and frames become records as soon as they are complete.
  std::optional<std::int64_t> Filled(const PickleData& data, const PickleValue& dict) override;
  // After reading. Returns why this is no snapshot of PyTorch; empty: it is one.
  std::string Take(const PickleData& data, const PickleValue& root);

  std::vector<TorchSegment> segments;            // by device and address
  std::vector<std::vector<TorchEvent>> devices;  // events by device
  // Ends of the program's steps, microseconds since 1970, as its annotations tell: torch.profiler's ProfilerStep#N,
  // else the calls of the optimizer that steps most often. Ascending; empty: none.
  std::vector<std::int64_t> step_ends_us;
  std::string allocator_settings;  // PYTORCH_CUDA_ALLOC_CONF as it was; empty: not set or not known
  std::uint64_t unknown_actions = 0, blocks_left_out = 0, host_events = 0;

 private:
  // Keys of the dicts that become records.
  enum Key : std::uint8_t {
    kAction,
    kFilename,
    kName,
    kAddress,
    kDeviceFree,
    kSize,
    kStream,
    kTime,
    kFrames,
    kKeys,  // how many
    kOther,
    kNotAsked,
  };
  Key KeyOf(const PickleData& data, const PickleValue& value);
  std::int64_t FrameOf(const PickleData& data, const PickleValue& dict);
  std::uint32_t StackOf(const PickleData& data, const PickleValue& frames);
  std::uint32_t ModuleOf(std::string_view function, std::string_view file);
  bool TakeSegment(const PickleData& data, const PickleValue& value);
  void TakeAnnotations(const PickleData& data, const PickleValue& list);
  TorchBlock TakeBlock(const PickleData& data, const PickleValue& value, std::uint64_t address);

  Snapshot& snapshot_;
  Interner<std::string> strings_;
  Interner<Frame> frames_;
  Interner<Stack> stacks_;
  absl::flat_hash_map<std::int64_t, std::uint32_t> stack_of_list_;  // lists of frames are shared
  std::vector<Key> keys_;                                           // by index of the string
  std::deque<TorchEvent> events_;                                   // until Take()
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_TORCH_TRACE_H_
