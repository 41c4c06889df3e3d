// The tables of a snapshot as its JSON has them: columns, with enum values as numbers of the file's own word lists.
// Internal to the loader, which fills them while it reads and then makes rows of them.
#ifndef CUHEAP_ANALYSIS_SNAPSHOT_COLUMNS_H_
#define CUHEAP_ANALYSIS_SNAPSHOT_COLUMNS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/snapshot.h"
#include "analysis/snapshot_check.h"

namespace cuheap::analysis {

struct FrameColumns {
  std::vector<std::uint8_t> kind;
  std::vector<std::uint32_t> function, file, line, module;
  std::vector<std::uint64_t> offset;
  std::vector<std::uint8_t> inlined;  // 0 or 1
  std::vector<std::uint32_t> reason;
};

struct StackColumns {
  std::vector<std::vector<std::uint32_t>> frames;
  std::vector<std::uint32_t> truncated, unwind_failed, python_unplaced;  // indices of stacks
  std::vector<std::uint32_t> no_python, backward;                        // one per stack
};

struct LiveColumns {
  std::vector<std::uint64_t> id, address, bytes, reserved_bytes, stream, context;
  std::vector<std::int64_t> time_ns;
  std::vector<std::uint32_t> stack, thread, device;
  std::vector<std::uint8_t> kind, allocator;
  std::vector<std::uint8_t> served;                          // 0 or 1
  std::optional<std::vector<std::uint64_t>> mapped_address;  // files of an earlier cuheap have none
};

// The file's lists of words: what the numbers in its columns mean.
struct WordLists {
  std::vector<std::string> frame_kind, allocation_kind, allocator, event_type;
};

// Each makes rows of columns; the error names the place in the file.
std::optional<Inconsistency> MakeFrames(const FrameColumns& columns, const WordLists& words,
                                        std::vector<Frame>& frames);
std::optional<Inconsistency> MakeStacks(StackColumns& columns, std::vector<Stack>& stacks);
std::optional<Inconsistency> MakeLive(const char* name, const LiveColumns& columns, const WordLists& words,
                                      std::vector<LiveAllocation>& table);
// The enum columns of events: from numbers of the file's lists to values.
std::optional<Inconsistency> MakeEventEnums(const PackedColumn<std::uint8_t>& type,
                                            const PackedColumn<std::uint8_t>& kind, const WordLists& words,
                                            Events& events);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_SNAPSHOT_COLUMNS_H_
