#include "analysis/snapshot_columns.h"

#include <utility>

#include "analysis/snapshot_names.h"

namespace cuheap::analysis {
namespace {

std::string Place(const std::string& column, std::size_t row) {
  return "$." + column + "[" + std::to_string(row) + "]";
}

std::optional<Inconsistency> CheckLengths(const std::string& table,
                                          std::initializer_list<std::pair<const char*, std::size_t>> columns) {
  const auto& first = *columns.begin();
  for (const auto& [name, length] : columns) {
    if (length != first.second) {
      return Inconsistency{"$." + table + "." + name, "has " + std::to_string(length) + " elements, but \"" +
                                                          first.first + "\" has " + std::to_string(first.second)};
    }
  }
  return std::nullopt;
}

// From a number of the file's word list to the value of that word. A word that this version does not know (a newer
// cuheap added it) becomes the enum's first value.
template <typename Enum>
class Translation {
 public:
  explicit Translation(const std::vector<std::string>& words) {
    for (const std::string& word : words) values_.push_back(FromString<Enum>(word).value_or(Enum{}));
  }
  std::optional<Inconsistency> Apply(const std::string& column, std::size_t row, std::uint8_t number,
                                     Enum& value) const {
    if (number >= values_.size()) {
      return Inconsistency{Place(column, row), std::to_string(number) +
                                                   " is no index of its list in \"words\", which has " +
                                                   std::to_string(values_.size()) + " entries"};
    }
    value = values_[number];
    return std::nullopt;
  }
  std::optional<Inconsistency> Apply(const std::string& column, const PackedColumn<std::uint8_t>& numbers,
                                     PackedColumn<Enum>& values) const {
    values.clear();
    for (std::size_t row = 0; row < numbers.size(); ++row) {
      Enum value{};
      if (auto wrong = Apply(column, row, numbers[row], value)) return wrong;
      values.push_back(value);
    }
    return std::nullopt;
  }

 private:
  std::vector<Enum> values_;
};

}  // namespace

std::optional<Inconsistency> MakeFrames(const FrameColumns& columns, const WordLists& words,
                                        std::vector<Frame>& frames) {
  if (auto wrong = CheckLengths("frames", {{"kind", columns.kind.size()},
                                           {"function", columns.function.size()},
                                           {"file", columns.file.size()},
                                           {"line", columns.line.size()},
                                           {"module", columns.module.size()},
                                           {"offset", columns.offset.size()},
                                           {"inlined", columns.inlined.size()},
                                           {"reason", columns.reason.size()}})) {
    return wrong;
  }
  const Translation<FrameKind> kinds(words.frame_kind);
  frames.assign(columns.kind.size(), Frame{});
  for (std::size_t i = 0; i < frames.size(); ++i) {
    Frame& frame = frames[i];
    if (auto wrong = kinds.Apply("frames.kind", i, columns.kind[i], frame.kind)) return wrong;
    frame.function = columns.function[i];
    frame.file = columns.file[i];
    frame.line = columns.line[i];
    frame.module = columns.module[i];
    frame.offset = columns.offset[i];
    frame.inlined = columns.inlined[i] != 0;
    frame.reason = columns.reason[i];
  }
  return std::nullopt;
}

std::optional<Inconsistency> MakeStacks(StackColumns& columns, std::vector<Stack>& stacks) {
  stacks.assign(columns.frames.size(), Stack{});
  for (std::size_t i = 0; i < stacks.size(); ++i) stacks[i].frames = std::move(columns.frames[i]);
  for (const auto& [name, indices, flag] :
       {std::tuple("stacks.truncated", &columns.truncated, &Stack::truncated),
        std::tuple("stacks.unwind_failed", &columns.unwind_failed, &Stack::unwind_failed),
        std::tuple("stacks.python_unplaced", &columns.python_unplaced, &Stack::python_unplaced)}) {
    for (std::size_t i = 0; i < indices->size(); ++i) {
      if ((*indices)[i] >= stacks.size()) {
        return Inconsistency{Place(name, i), std::to_string((*indices)[i]) + " is no index of stacks, which has " +
                                                 std::to_string(stacks.size()) + " entries"};
      }
      stacks[(*indices)[i]].*flag = true;
    }
  }
  for (const auto& [name, column, member] : {std::tuple("no_python", &columns.no_python, &Stack::no_python),
                                             std::tuple("backward", &columns.backward, &Stack::backward)}) {
    if (auto wrong = CheckLengths("stacks", {{"frames", stacks.size()}, {name, column->size()}})) return wrong;
    for (std::size_t i = 0; i < stacks.size(); ++i) stacks[i].*member = (*column)[i];
  }
  return std::nullopt;
}

std::optional<Inconsistency> MakeLive(const char* name, const LiveColumns& columns, const WordLists& words,
                                      std::vector<LiveAllocation>& table) {
  if (auto wrong = CheckLengths(name, {{"id", columns.id.size()},
                                       {"address", columns.address.size()},
                                       {"bytes", columns.bytes.size()},
                                       {"reserved_bytes", columns.reserved_bytes.size()},
                                       {"stream", columns.stream.size()},
                                       {"context", columns.context.size()},
                                       {"time_ns", columns.time_ns.size()},
                                       {"stack", columns.stack.size()},
                                       {"thread", columns.thread.size()},
                                       {"device", columns.device.size()},
                                       {"kind", columns.kind.size()},
                                       {"allocator", columns.allocator.size()},
                                       {"served", columns.served.size()}})) {
    return wrong;
  }
  const auto& mapped = columns.mapped_address;
  if (mapped && mapped->size() != columns.id.size()) {
    return CheckLengths(name, {{"id", columns.id.size()}, {"mapped_address", mapped->size()}});
  }
  const Translation<AllocationKind> kinds(words.allocation_kind);
  const Translation<Allocator> allocators(words.allocator);
  const std::string prefix = std::string(name) + ".";
  table.assign(columns.id.size(), LiveAllocation{});
  for (std::size_t i = 0; i < table.size(); ++i) {
    LiveAllocation& row = table[i];
    if (auto wrong = kinds.Apply(prefix + "kind", i, columns.kind[i], row.kind)) return wrong;
    if (auto wrong = allocators.Apply(prefix + "allocator", i, columns.allocator[i], row.allocator)) return wrong;
    row.id = columns.id[i];
    row.address = columns.address[i];
    row.bytes = columns.bytes[i];
    row.reserved_bytes = columns.reserved_bytes[i];
    row.stream = columns.stream[i];
    row.context = columns.context[i];
    row.time_ns = columns.time_ns[i];
    row.stack = columns.stack[i];
    row.thread = columns.thread[i];
    row.device = columns.device[i];
    row.served = columns.served[i] != 0;
    if (mapped) row.mapped_address = (*mapped)[i];
  }
  return std::nullopt;
}

std::optional<Inconsistency> MakeEventEnums(const PackedColumn<std::uint8_t>& type,
                                            const PackedColumn<std::uint8_t>& kind, const WordLists& words,
                                            Events& events) {
  if (auto wrong = Translation<EventType>(words.event_type).Apply("events.type", type, events.type)) return wrong;
  return Translation<AllocationKind>(words.allocation_kind).Apply("events.kind", kind, events.kind);
}

}  // namespace cuheap::analysis
