#include "analysis/torch_trace.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

namespace cuheap::analysis {
namespace {

using Kind = PickleValue::Kind;

// Records of both sorts are told apart by this bit: a frame list holds frames only, a trace events only.
constexpr std::int64_t kEventRecord = std::int64_t{1} << 40;

TorchAction ActionOf(std::string_view word) {
  constexpr std::array<std::pair<std::string_view, TorchAction>, 9> kWords{{
      {"alloc", TorchAction::kAlloc},
      {"free_requested", TorchAction::kFreeRequested},
      {"free_completed", TorchAction::kFreeCompleted},
      {"segment_alloc", TorchAction::kSegmentAlloc},
      {"segment_free", TorchAction::kSegmentFree},
      {"segment_map", TorchAction::kSegmentMap},
      {"segment_unmap", TorchAction::kSegmentUnmap},
      {"snapshot", TorchAction::kSnapshot},
      {"oom", TorchAction::kOutOfMemory},
  }};
  for (const auto& [name, action] : kWords) {
    if (name == word) return action;
  }
  return TorchAction::kUnknown;
}

bool IsPythonFile(std::string_view file) {
  return file.ends_with(".py") || file.ends_with(".pyx") || file.ends_with(".ipynb") || file.starts_with("<") ||
         file.find("ipykernel_") != std::string_view::npos;
}

bool StartsWithAny(std::string_view text, std::initializer_list<std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view prefix) { return text.starts_with(prefix); });
}

std::uint64_t UnsignedOr0(const PickleValue& value) { return PickleData::Unsigned(value).value_or(0); }

}  // namespace

TorchTrace::TorchTrace(Snapshot& snapshot)
    : snapshot_(snapshot), strings_(snapshot.strings), frames_(snapshot.frames), stacks_(snapshot.stacks) {}

// What a key is, asked of each string once: the events share theirs.
TorchTrace::Key TorchTrace::KeyOf(const PickleData& data, const PickleValue& value) {
  constexpr std::array<std::pair<std::string_view, Key>, kKeys> kWords{{
      {"action", kAction},
      {"filename", kFilename},
      {"name", kName},
      {"addr", kAddress},
      {"device_free", kDeviceFree},
      {"size", kSize},
      {"stream", kStream},
      {"time_us", kTime},
      {"frames", kFrames},
  }};
  if (!value.is(Kind::kString)) return kOther;
  const auto index = static_cast<std::size_t>(value.integer);
  if (index >= keys_.size()) keys_.resize(index + 1, kNotAsked);
  if (keys_[index] != kNotAsked) return keys_[index];
  const std::string_view text = data.Text(value);
  const auto* known = std::find_if(kWords.begin(), kWords.end(), [&](const auto& word) { return word.first == text; });
  return keys_[index] = known == kWords.end() ? kOther : known->second;
}

std::optional<std::int64_t> TorchTrace::Filled(const PickleData& data, const PickleValue& dict) {
  const PickleData::Elements& elements = data.Of(dict);
  std::array<const PickleValue*, kKeys> values{};
  for (std::size_t i = 0; i + 1 < elements.size(); i += 2) {
    const Key key = KeyOf(data, elements[i]);
    if (key < kKeys && values[key] == nullptr) values[key] = &elements[i + 1];
  }
  if (values[kFilename] != nullptr && values[kName] != nullptr) return FrameOf(data, dict);
  if (values[kAction] == nullptr) return std::nullopt;
  const auto number = [&](Key key) { return values[key] == nullptr ? 0 : UnsignedOr0(*values[key]); };
  TorchEvent event;
  event.action = ActionOf(data.Text(*values[kAction]));
  event.address = number(event.action == TorchAction::kOutOfMemory ? kDeviceFree : kAddress);
  event.bytes = number(kSize);
  event.stream = number(kStream);
  if (values[kTime] != nullptr) event.time_us = PickleData::Signed(*values[kTime]).value_or(0);
  if (values[kFrames] != nullptr) event.stack = StackOf(data, *values[kFrames]);
  events_.push_back(event);
  return kEventRecord | static_cast<std::int64_t>(events_.size() - 1);
}

// The library that a native frame lies in, as far as its name tells: the snapshot does not say.
std::uint32_t TorchTrace::ModuleOf(std::string_view function, std::string_view file) {
  const char* path = nullptr;
  if (StartsWithAny(function, {"at::", "c10::", "torch::", "caffe2::", "THP", "void at::", "at_cuda"}) ||
      file.find("/torch/csrc/") != std::string_view::npos || file.find("/aten/src/") != std::string_view::npos ||
      file.find("/c10/") != std::string_view::npos) {
    path = "libtorch.so";
  } else if (StartsWithAny(function, {"Py", "_Py", "cfunction_", "method_", "slot_", "builtin_", "type_call"})) {
    path = "libpython3.so";
  } else if (StartsWithAny(function, {"cublas", "cudnn", "nccl", "cusolver", "cusparse", "cufft"})) {
    path = "libcublas.so";
  } else if (StartsWithAny(function, {"__libc_start", "_start", "start_thread", "clone"})) {
    path = "libc.so.6";
  } else {
    return 0;
  }
  for (std::size_t i = 0; i < snapshot_.modules.size(); ++i) {
    if (snapshot_.modules[i].path == path) return static_cast<std::uint32_t>(i + 1);
  }
  snapshot_.modules.emplace_back();
  snapshot_.modules.back().path = path;
  return static_cast<std::uint32_t>(snapshot_.modules.size());
}

std::int64_t TorchTrace::FrameOf(const PickleData& data, const PickleValue& dict) {
  const std::string_view function = data.Text(data.Find(dict, "name")), file = data.Text(data.Find(dict, "filename"));
  Frame frame;
  frame.kind = IsPythonFile(file) ? FrameKind::kPython : FrameKind::kNative;
  frame.function = strings_.Intern(std::string(function));
  frame.file = file == "??" ? 0 : strings_.Intern(std::string(file));
  frame.line = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(UnsignedOr0(data.Find(dict, "line")), std::numeric_limits<std::uint32_t>::max()));
  if (frame.kind == FrameKind::kNative) frame.module = ModuleOf(function, file);
  return frames_.Intern(frame);
}

std::uint32_t TorchTrace::StackOf(const PickleData& data, const PickleValue& frames) {
  if (!frames.is(Kind::kList)) return 0;
  const auto [known, fresh] = stack_of_list_.try_emplace(frames.integer, 0);
  if (!fresh) return known->second;
  Stack stack;
  for (const PickleValue& frame : data.Of(frames)) {
    if (frame.is(Kind::kRecord) && frame.integer < kEventRecord)
      stack.frames.push_back(static_cast<std::uint32_t>(frame.integer));
  }
  known->second = stacks_.Intern(stack);
  return known->second;
}

TorchBlock TorchTrace::TakeBlock(const PickleData& data, const PickleValue& value, std::uint64_t address) {
  TorchBlock block;
  const std::string_view state = data.Text(data.Find(value, "state"));
  if (state == "active_allocated")
    block.state = TorchBlockState::kActive;
  else if (state.starts_with("active_"))
    block.state = TorchBlockState::kPendingFree;  // "active_pending_free"; "active_awaiting_free" in its documentation
  block.address = PickleData::Unsigned(data.Find(value, "address")).value_or(address);
  block.bytes = UnsignedOr0(data.Find(value, "size"));
  block.requested = PickleData::Unsigned(data.Find(value, "requested_size")).value_or(block.bytes);
  PickleValue frames = data.Find(value, "frames");
  const PickleData::Elements& history = data.Of(data.Find(value, "history"));
  if (!history.empty()) frames = data.Find(history.front(), "frames");  // the latest of those that used the block
  block.stack = StackOf(data, frames);
  return block;
}

bool TorchTrace::TakeSegment(const PickleData& data, const PickleValue& value) {
  const std::optional<std::uint64_t> bytes = PickleData::Unsigned(data.Find(value, "total_size"));
  const std::optional<std::uint64_t> address = PickleData::Unsigned(data.Find(value, "address"));
  const PickleValue blocks = data.Find(value, "blocks");
  if (!bytes || !address || !blocks.is(Kind::kList) || *address + *bytes < *address) return false;
  TorchSegment segment;
  segment.address = *address;
  segment.bytes = *bytes;
  segment.device = static_cast<std::uint32_t>(std::min<std::uint64_t>(UnsignedOr0(data.Find(value, "device")), 0xFFFE));
  segment.stream = UnsignedOr0(data.Find(value, "stream"));
  segment.expandable = UnsignedOr0(data.Find(value, "is_expandable")) != 0;
  segment.stack = StackOf(data, data.Find(value, "frames"));
  if (const PickleData::Elements& pool = data.Of(data.Find(value, "segment_pool_id")); pool.size() == 2) {
    segment.pool_first = UnsignedOr0(pool[0]);
    segment.pool_second = UnsignedOr0(pool[1]);
    segment.private_pool = segment.pool_first != 0 || segment.pool_second != 0;  // 0, 0 are the pools of all
  }
  std::uint64_t at = segment.address, active = 0, sum = 0;
  for (const PickleValue& entry : data.Of(blocks)) {
    const TorchBlock block = TakeBlock(data, entry, at);
    at = block.address + block.bytes;
    sum += block.bytes;
    if (block.state == TorchBlockState::kActive) active += block.bytes;
    // What overlaps or leaves the segment cannot be placed.
    if (block.address < segment.address || at < block.address || at > segment.address + segment.bytes)
      ++blocks_left_out;
    else
      segment.blocks.push_back(block);
  }
  segment.headers_agree =
      sum == segment.bytes && active == PickleData::Unsigned(data.Find(value, "allocated_size")).value_or(active);
  segments.push_back(std::move(segment));
  return true;
}

void TorchTrace::TakeAnnotations(const PickleData& data, const PickleValue& list) {
  constexpr std::string_view kProfilerStep = "ProfilerStep#", kOptimizer = "Optimizer.step#";
  std::map<std::string_view, std::vector<std::int64_t>> ends;  // by what ends a step
  for (const PickleValue& annotation : data.Of(list)) {
    const std::string_view name = data.Text(data.Find(annotation, "name"));
    const auto time_us = PickleData::Signed(data.Find(annotation, "time_us"));
    if (data.Text(data.Find(annotation, "stage")) != "END" || !time_us || *time_us <= 0) continue;
    if (name.starts_with(kProfilerStep)) ends[kProfilerStep].push_back(*time_us);
    if (name.starts_with(kOptimizer)) ends[name].push_back(*time_us);
  }
  for (const auto& [name, times_us] : ends) {
    if (name == kProfilerStep || (times_us.size() >= step_ends_us.size() && !ends.contains(kProfilerStep)))
      step_ends_us = times_us;
  }
  std::sort(step_ends_us.begin(), step_ends_us.end());
}

std::string TorchTrace::Take(const PickleData& data, const PickleValue& root) {
  // The oldest form is the list of segments alone (torch.cuda.memory_snapshot()).
  const PickleValue list = root.is(Kind::kList) ? root : data.Find(root, "segments");
  if (!list.is(Kind::kList)) return "it has no segments";
  for (const PickleValue& segment : data.Of(list)) {
    if (!TakeSegment(data, segment)) return "a segment lacks its address, size or blocks";
  }
  std::sort(segments.begin(), segments.end(), [](const TorchSegment& a, const TorchSegment& b) {
    return std::tie(a.device, a.address) < std::tie(b.device, b.address);
  });
  std::size_t taken = 0;  // events that were dropped from the front of events_: there are millions, in order
  for (const PickleValue& trace : data.Of(data.Find(root, "device_traces"))) {
    std::vector<TorchEvent>& events = devices.emplace_back();
    events.reserve(data.Of(trace).size());
    for (const PickleValue& event : data.Of(trace)) {
      if (!event.is(Kind::kRecord) || event.integer < kEventRecord) return "an event lacks its action";
      const auto index = static_cast<std::size_t>(event.integer - kEventRecord);
      if (index < taken) return "an event is listed twice";
      events.push_back(events_[index - taken]);
      if (index == taken) events_.pop_front(), ++taken;
      if (events.back().action == TorchAction::kUnknown) ++unknown_actions;
    }
  }
  events_.clear();
  events_.shrink_to_fit();
  TakeAnnotations(data, data.Find(root, "external_annotations"));
  for (const PickleValue& trace : data.Of(data.Find(root, "host_traces"))) host_events += data.Of(trace).size();
  const PickleValue settings = data.Find(root, "allocator_settings");
  allocator_settings = std::string(data.Text(data.Find(settings, "PYTORCH_CUDA_ALLOC_CONF")));
  if (allocator_settings.empty() && UnsignedOr0(data.Find(settings, "expandable_segments")) != 0)
    allocator_settings = "expandable_segments:True";
  return {};
}

}  // namespace cuheap::analysis
