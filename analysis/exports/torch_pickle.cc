#include "analysis/exports/torch_pickle.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "analysis/exports/block_timeline.h"
#include "analysis/exports/frame_names.h"
#include "analysis/exports/pickle_writer.h"
#include "analysis/exports/torch_layout.h"
#include "interpose/journal/format.h"

namespace cuheap::analysis {
namespace {

constexpr std::uint64_t kLargeSegment = std::uint64_t{2} << 20;  // above it, PyTorch's pool of large blocks

// Lists of frames, each written once.
class StackWriter {
 public:
  StackWriter(const Snapshot& snapshot, PickleWriter& pickle)
      : snapshot_(snapshot),
        names_(snapshot),
        pickle_(pickle),
        frames_(snapshot.frames.size()),
        stacks_(snapshot.stacks.size()) {}

  void Write(std::uint32_t stack) {
    if (stacks_[stack] != 0) {
      pickle_.Shared(stacks_[stack] - 1);
      return;
    }
    PickleWriter::List list = pickle_.BeginList();
    for (const std::uint32_t frame : snapshot_.stacks[stack].frames) {
      list.Element(pickle_);
      WriteFrame(frame);
    }
    pickle_.EndList(list);
    stacks_[stack] = pickle_.Share() + 1;
  }

 private:
  void WriteFrame(std::uint32_t frame) {
    if (frames_[frame] != 0) {
      pickle_.Shared(frames_[frame] - 1);
      return;
    }
    pickle_.BeginDict();
    pickle_.String("name");
    pickle_.String(names_.Function(frame));
    pickle_.String("filename");
    pickle_.String(FileOf(frame));
    pickle_.String("line");
    pickle_.Unsigned(names_.Line(frame));
    pickle_.EndDict();
    frames_[frame] = pickle_.Share() + 1;
  }

  // The library, if no file is known; PyTorch's snapshots do not tell it, so that there it is a guess.
  std::string FileOf(std::uint32_t frame) const {
    const std::uint32_t module = snapshot_.frames[frame].module;
    std::string file = names_.File(frame);
    if (file.empty() && module != 0 && snapshot_.recorder != "pytorch") file = snapshot_.modules[module - 1].path;
    return file.empty() ? "??" : file;
  }

  const Snapshot& snapshot_;
  FrameNames names_;
  PickleWriter& pickle_;
  std::vector<std::uint32_t> frames_, stacks_;  // their numbers + 1; 0: not written yet
};

class TorchWriter {
 public:
  TorchWriter(const Snapshot& snapshot, const Blocks& blocks, TextSink& sink)
      : snapshot_(snapshot),
        layout_(snapshot, blocks),
        timeline_(blocks, snapshot.events.size()),
        pickle_(sink),
        stacks_(snapshot, pickle_) {
    for (std::uint32_t number = 0; number < timeline_.size(); ++number) {
      const Block& block = timeline_.block(number);
      if (layout_.RoleOf(block) == TorchRole::kLeftOut) {
        ++left_out_;
        continue;
      }
      devices_ = std::max(devices_, block.device + 1);
      if (block.kind == AllocationKind::kVirtual) virtual_blocks_[block.id] = number;
    }
    for (std::size_t i = 0; i < snapshot.events.size(); ++i) events_of_[snapshot.events.device[i]].push_back(i);
  }

  void Write() {
    pickle_.Begin();
    pickle_.BeginDict();
    pickle_.String("segments");
    PickleWriter::List segments = pickle_.BeginList();
    for (const LaidSegment& segment : layout_.Segments()) {
      segments.Element(pickle_);
      WriteSegment(segment);
    }
    pickle_.EndList(segments);
    pickle_.String("device_traces");
    PickleWriter::List traces = pickle_.BeginList();
    for (std::uint32_t device = 0; device < devices_; ++device) {
      traces.Element(pickle_);
      WriteTrace(device);
    }
    pickle_.EndList(traces);
    pickle_.String("allocator_settings");
    pickle_.BeginDict();
    if (const auto conf = snapshot_.configuration.find("PYTORCH_CUDA_ALLOC_CONF");
        conf != snapshot_.configuration.end()) {
      pickle_.String("PYTORCH_CUDA_ALLOC_CONF");
      pickle_.String(conf->second);
    }
    pickle_.EndDict();
    pickle_.String("external_annotations");
    WriteSteps();
    pickle_.EndDict();
    pickle_.End();
  }

  std::uint64_t left_out() const { return left_out_; }

 private:
  // Marked steps are annotations named as torch.profiler names its own, which our reader takes for steps as well.
  void WriteSteps() {
    PickleWriter::List annotations = pickle_.BeginList();
    std::uint64_t step = 0;
    std::int64_t begin_ns = 0;
    for (std::size_t i = 0; i < snapshot_.events.size(); ++i) {
      if (snapshot_.events.type[i] != EventType::kStepMark) continue;
      const std::int64_t end_ns = snapshot_.events.time_ns[i];
      const std::string name = "ProfilerStep#" + std::to_string(step++);
      for (const bool start : {true, false}) {
        annotations.Element(pickle_);
        pickle_.BeginDict();
        pickle_.String("name");
        pickle_.String(name);
        pickle_.String("stage");
        pickle_.String(start ? "START" : "END");
        Member("device", 0);
        Time(start ? begin_ns : end_ns);
        pickle_.EndDict();
      }
      begin_ns = end_ns;
    }
    pickle_.EndList(annotations);
  }

  void Member(std::string_view name, std::uint64_t value) {
    pickle_.String(name);
    pickle_.Unsigned(value);
  }
  void Time(std::int64_t ns) {
    pickle_.String("time_us");
    // Without overflow, whatever a damaged snapshot has for times.
    pickle_.Signed(snapshot_.process.start_realtime_ns / 1000 + ns / 1000 +
                   (snapshot_.process.start_realtime_ns % 1000 + ns % 1000) / 1000);
  }
  void Frames(std::uint32_t stack) {
    pickle_.String("frames");
    stacks_.Write(stack);
  }

  void WriteSegment(const LaidSegment& segment) {
    std::uint64_t active = 0, requested = 0;
    for (const LaidBlock& block : segment.blocks) {
      active += block.active ? block.bytes : 0;
      requested += block.requested;
    }
    pickle_.BeginDict();
    Member("device", segment.device);
    Member("address", segment.address);
    Member("total_size", segment.bytes);
    Member("allocated_size", active);
    Member("active_size", active);
    Member("requested_size", requested);
    Member("stream", segment.stream);
    pickle_.String("segment_type");
    pickle_.String(segment.bytes > kLargeSegment ? "large" : "small");
    pickle_.String("segment_pool_id");
    pickle_.Pair(0, 0);
    pickle_.String("is_expandable");
    pickle_.Bool(segment.expandable);
    Frames(segment.stack);
    pickle_.String("blocks");
    PickleWriter::List blocks = pickle_.BeginList();
    for (const LaidBlock& block : segment.blocks) {
      blocks.Element(pickle_);
      pickle_.BeginDict();
      Member("address", block.address);
      Member("size", block.bytes);
      Member("requested_size", block.requested);
      pickle_.String("state");
      pickle_.String(block.active ? "active_allocated" : "inactive");
      Frames(block.stack);
      pickle_.EndDict();
    }
    pickle_.EndList(blocks);
    pickle_.EndDict();
  }

  // What an entry of a trace tells apart from its action.
  struct Entry {
    std::size_t event = 0;
    std::uint64_t address = 0, bytes = 0, stream = 0;
  };

  void WriteEntry(PickleWriter::List& list, std::string_view action, const Entry& entry) {
    list.Element(pickle_);
    pickle_.BeginDict();
    pickle_.String("action");
    pickle_.String(action);
    Member(action == "oom" ? "device_free" : "addr", entry.address);
    Member("size", entry.bytes);
    Member("stream", entry.stream);
    Time(snapshot_.events.time_ns[entry.event]);
    Frames(snapshot_.events.stack[entry.event]);
    pickle_.EndDict();
  }

  // As PyTorch writes it when the snapshot is taken; it tells how long the record is.
  void WriteSnapshotMark(PickleWriter::List& list) {
    list.Element(pickle_);
    pickle_.BeginDict();
    pickle_.String("action");
    pickle_.String("snapshot");
    Member("addr", 0);
    Member("size", 0);
    Member("stream", 0);
    Time(std::max(snapshot_.process.duration_ns, snapshot_.events.time_ns.back()));
    Frames(0);
    pickle_.EndDict();
  }

  // A viewer rolls the events back from the end: a block must never be without its segment.
  void WriteChange(PickleWriter::List& list, TorchRole role, bool mapped, bool appears, const Entry& entry) {
    if (appears && role != TorchRole::kBlock) WriteEntry(list, mapped ? "segment_map" : "segment_alloc", entry);
    if (role != TorchRole::kSegment) {
      if (appears) {
        WriteEntry(list, "alloc", entry);
      } else {
        WriteEntry(list, "free_requested", entry);
        WriteEntry(list, "free_completed", entry);
      }
    }
    if (!appears && role != TorchRole::kBlock) WriteEntry(list, mapped ? "segment_unmap" : "segment_free", entry);
  }

  void WriteTrace(std::uint32_t device) {
    const Events& events = snapshot_.events;
    PickleWriter::List list = pickle_.BeginList();
    const auto mine = events_of_.find(device);
    if (mine == events_of_.end()) {
      pickle_.EndList(list);
      return;
    }
    std::uint64_t held = HeldBefore(device);
    for (const std::size_t i : mine->second) {
      const EventType type = events.type[i];
      if (type == EventType::kMap || type == EventType::kUnmap) {
        WriteMapping(list, i);
      } else if (type == EventType::kFrameworkOutOfMemory ||
                 (type == EventType::kAllocateFailed && (events.flags[i] & journal::kCallerIsPyTorch) == 0 &&
                  Blocks::OnDevice(events.kind[i]))) {
        WriteEntry(list, "oom", {i, FreeOf(device, held), events.bytes[i], 0});
      }
      const std::uint32_t number = timeline_.At(i);
      if (number == BlockTimeline::kNoBlock) continue;
      const Block& block = timeline_.block(number);
      const bool allocation = timeline_.IsAllocation(number, i);
      if (Blocks::OnDevice(block.kind)) held = allocation ? held + block.bytes : held - std::min(held, block.bytes);
      const TorchRole role = layout_.RoleOf(block);
      if (role == TorchRole::kLeftOut || block.kind == AllocationKind::kVirtual) continue;
      WriteChange(list, role, false, allocation, {i, block.address, block.bytes, block.stream});
    }
    if (!list.empty()) WriteSnapshotMark(list);
    pickle_.EndList(list);
  }

  // Memory that is made first and mapped later is there from when it is mapped.
  void WriteMapping(PickleWriter::List& list, std::size_t i) {
    const auto found = virtual_blocks_.find(snapshot_.events.id[i]);
    if (found == virtual_blocks_.end()) return;
    const Block& block = timeline_.block(found->second);
    const TorchRole role = layout_.RoleOf(block);
    WriteChange(list, role, role == TorchRole::kSegment, snapshot_.events.type[i] == EventType::kMap,
                {i, snapshot_.events.address[i], block.bytes, block.stream});
  }

  std::uint64_t HeldBefore(std::uint32_t device) const {
    std::uint64_t bytes = 0;
    for (std::uint32_t number = 0; number < timeline_.size(); ++number) {
      const Block& block = timeline_.block(number);
      if (block.device == device && block.allocated_at == 0 && Blocks::OnDevice(block.kind)) bytes += block.bytes;
    }
    return bytes;
  }
  // Of the device's memory, by what this process is known to hold.
  std::uint64_t FreeOf(std::uint32_t device, std::uint64_t held) const {
    for (const Device& candidate : snapshot_.devices) {
      if (candidate.ordinal == device) return candidate.total_bytes - std::min(candidate.total_bytes, held);
    }
    return 0;
  }

  const Snapshot& snapshot_;
  TorchLayout layout_;
  BlockTimeline timeline_;
  PickleWriter pickle_;
  StackWriter stacks_;
  std::unordered_map<std::uint64_t, std::uint32_t> virtual_blocks_;        // number by id
  std::unordered_map<std::uint32_t, std::vector<std::size_t>> events_of_;  // a device
  std::uint32_t devices_ = 0;
  std::uint64_t left_out_ = 0;
};

}  // namespace

absl::Status TorchPickle::Write(const Snapshot& snapshot, const Blocks& blocks, const ExportRequest&, TextSink& sink,
                                std::vector<std::string>& notes) const {
  TorchWriter writer(snapshot, blocks, sink);
  writer.Write();
  if (writer.left_out() != 0) {
    notes.push_back(
        std::to_string(writer.left_out()) +
        " blocks have no place in a snapshot of PyTorch (host memory, other processes' memory) and are left out");
  }
  return absl::OkStatus();
}

}  // namespace cuheap::analysis
