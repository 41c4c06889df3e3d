#include "analysis/torch_model.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "interpose/journal/format.h"

namespace cuheap::analysis {
namespace {

constexpr std::uint64_t kBlockUnit = 512;  // CUDACachingAllocator's kMinBlockSize

std::uint64_t Occupied(std::uint64_t requested) {
  if (requested > std::numeric_limits<std::uint64_t>::max() - kBlockUnit) return requested;
  return std::max(kBlockUnit, (requested + kBlockUnit - 1) / kBlockUnit * kBlockUnit);
}

struct Odd {
  std::uint64_t headers = 0, before = 0, twice = 0;
};

// A sum and the most that it was, reckoned from its end: what it was at the beginning is not in the file.
class Gauge {
 public:
  void Change(std::int64_t time_ns, std::uint64_t bytes, bool more) {
    sum_ += more ? static_cast<std::int64_t>(bytes) : -static_cast<std::int64_t>(bytes);
    if (sum_ > most_) {
      most_ = sum_;
      most_ns_ = time_ns;
    }
  }
  // Given what it is at the end.
  std::uint64_t Peak(std::uint64_t end) const {
    const std::int64_t begin = static_cast<std::int64_t>(end) - sum_;
    return static_cast<std::uint64_t>(std::max<std::int64_t>(begin + most_, static_cast<std::int64_t>(end)));
  }
  std::uint64_t Now(std::uint64_t end) const { return Begin(end, sum_); }
  std::int64_t peak_ns() const { return most_ns_; }
  std::int64_t sum() const { return sum_; }
  static std::uint64_t Begin(std::uint64_t end, std::int64_t net) {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(0, static_cast<std::int64_t>(end) - net));
  }

 private:
  std::int64_t sum_ = 0, most_ = 0, most_ns_ = 0;
};

struct Row {
  EventType type = EventType::kNone;
  AllocationKind kind = AllocationKind::kNone;
  std::int64_t time_ns = 0;
  std::uint64_t id = 0, address = 0, bytes = 0, stream = 0;
  std::uint32_t stack = 0, device = 0;
};

// What is open (allocated, not freed) at each address, of one kind.
struct Open {
  std::uint64_t id = 0, bytes = 0;
  std::int64_t time_ns = 0;
  std::uint32_t stack = 0;
};
using OpenByAddress = std::unordered_map<std::uint64_t, Open>;

// One device's part of the file.
class DeviceModel {
 public:
  DeviceModel(std::uint32_t device, const std::vector<const TorchSegment*>& segments,
              const std::vector<TorchEvent>& events, std::int64_t start_us, std::uint64_t& next_id, Odd& odd)
      : device_(device), segments_(segments), events_(events), start_us_(start_us), next_id_(next_id), odd_(odd) {}

  void Make(Snapshot& snapshot) {
    FindCuts();
    const bool requested = std::any_of(events_.begin(), events_.end(), [](const TorchEvent& event) {
      return event.action == TorchAction::kFreeRequested;
    });
    free_action_ = requested ? TorchAction::kFreeRequested : TorchAction::kFreeCompleted;
    rows_.reserve(events_.size());
    for (const TorchEvent& event : events_) Apply(event);
    Device totals;
    totals.ordinal = device_;
    for (const TorchSegment* segment : segments_) Settle(*segment, snapshot, totals);
    totals.framework_held_bytes = totals.live_bytes;
    totals.peak_bytes = totals.framework_held_peak_bytes = reserved_.Peak(totals.live_bytes);
    totals.peak_ns = reserved_.peak_ns();
    totals.tensor_peak_bytes = tensors_.Peak(totals.tensor_live_bytes);
    totals.tensor_peak_ns = tensors_.peak_ns();
    // The sums at the end are known now, and with them those at each failure.
    for (const auto& [row, sums] : refusals_) {
      rows_[row].address = Gauge::Begin(totals.tensor_live_bytes, tensors_.sum() - sums.first);
      rows_[row].stream = Gauge::Begin(totals.live_bytes, reserved_.sum() - sums.second);
    }
    snapshot.devices.push_back(totals);
  }

  std::vector<Row>& rows() { return rows_; }

 private:
  std::int64_t Time(const TorchEvent& event) {
    if (event.time_us >= start_us_ && event.time_us - start_us_ < std::numeric_limits<std::int64_t>::max() / 1000)
      time_ns_ = std::max(time_ns_, (event.time_us - start_us_) * 1000);
    return time_ns_;  // events are in order; those without a time have that of the one before
  }

  Row& Add(EventType type, AllocationKind kind, std::uint64_t id, const TorchEvent& event) {
    rows_.push_back({type, kind, time_ns_, id, event.address, event.bytes, event.stream, event.stack, device_});
    return rows_.back();
  }

  void Apply(const TorchEvent& event) {
    Time(event);
    switch (event.action) {
      case TorchAction::kAlloc:
        Allocate(event, AllocationKind::kTensor, Occupied(event.bytes), open_tensors_, tensors_);
        break;
      case TorchAction::kFreeRequested:
      case TorchAction::kFreeCompleted:
        if (event.action == free_action_)
          Free(event, AllocationKind::kTensor, Occupied(event.bytes), open_tensors_, tensors_);
        break;
      case TorchAction::kSegmentAlloc:
        Allocate(event, AllocationKind::kDevice, event.bytes, open_segments_, reserved_);
        break;
      case TorchAction::kSegmentFree:
        Free(event, AllocationKind::kDevice, event.bytes, open_segments_, reserved_);
        break;
      case TorchAction::kSegmentMap:
      case TorchAction::kSegmentUnmap:
        for (const auto& [address, bytes] : Pieces(event.address, event.bytes)) {
          TorchEvent piece = event;
          piece.address = address;
          piece.bytes = bytes;
          MapPiece(piece);
        }
        break;
      case TorchAction::kOutOfMemory:
        refusals_.emplace_back(rows_.size(), std::pair(tensors_.sum(), reserved_.sum()));
        Add(EventType::kFrameworkOutOfMemory, AllocationKind::kTensor, 0, event);
        break;
      case TorchAction::kSnapshot:
      case TorchAction::kUnknown:
        break;
    }
  }

  void Allocate(const TorchEvent& event, AllocationKind kind, std::uint64_t bytes, OpenByAddress& open, Gauge& gauge) {
    const std::uint64_t id = ++next_id_;
    Open& entry = open[event.address];
    if (entry.id != 0) {  // its free is missing
      ++odd_.twice;
      gauge.Change(time_ns_, entry.bytes, false);
      Add(EventType::kFree, kind, entry.id, event).bytes = entry.bytes;
    }
    entry = {id, bytes, time_ns_, event.stack};
    gauge.Change(time_ns_, bytes, true);
    Add(EventType::kAllocate, kind, id, event).bytes = bytes;
  }

  void Free(const TorchEvent& event, AllocationKind kind, std::uint64_t bytes, OpenByAddress& open, Gauge& gauge) {
    const auto found = open.find(event.address);
    std::uint64_t id = 0;
    if (found != open.end()) {
      id = found->second.id;
      bytes = found->second.bytes;
      open.erase(found);
    } else {
      id = ++next_id_;
      ++odd_.before;
    }
    gauge.Change(time_ns_, bytes, false);
    Add(EventType::kFree, kind, id, event).bytes = bytes;
  }

  void MapPiece(const TorchEvent& piece) {
    if (piece.action == TorchAction::kSegmentMap) {
      Allocate(piece, AllocationKind::kVirtual, piece.bytes, open_pieces_, reserved_);
      Add(EventType::kMap, AllocationKind::kVirtual, open_pieces_[piece.address].id, piece);
      return;
    }
    Free(piece, AllocationKind::kVirtual, piece.bytes, open_pieces_, reserved_);
    const std::uint64_t id = rows_.back().id;
    Add(EventType::kUnmap, AllocationKind::kVirtual, id, piece);
    std::swap(rows_[rows_.size() - 2], rows_.back());
  }

  void FindCuts() {
    const auto cut = [&](std::uint64_t address, std::uint64_t bytes) {
      cuts_.insert(address);
      cuts_.insert(address + bytes);
    };
    for (const TorchSegment* segment : segments_) {
      if (segment->expandable) cut(segment->address, segment->bytes);
    }
    for (const TorchEvent& event : events_) {
      if (event.action == TorchAction::kSegmentMap || event.action == TorchAction::kSegmentUnmap)
        cut(event.address, event.bytes);
    }
  }

  // A range in pieces that are mapped and unmapped as wholes.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> Pieces(std::uint64_t address, std::uint64_t bytes) const {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> pieces;
    for (auto at = cuts_.find(address); at != cuts_.end() && *at < address + bytes; ++at) {
      const auto next = std::next(at);
      if (next == cuts_.end()) break;
      pieces.emplace_back(*at, *next - *at);
    }
    return pieces;
  }

  void AddLive(const Open& known, AllocationKind kind, const TorchSegment& segment, std::uint64_t address,
               std::uint64_t bytes, std::uint32_t stack, Snapshot& snapshot) {
    LiveAllocation live;
    if (known.id != 0) {
      live.id = known.id;
      live.time_ns = known.time_ns;
    } else {
      live.id = ++next_id_;
      live.time_ns = kTimeUnknown;
      ++odd_.before;
    }
    live.address = address;
    live.bytes = live.reserved_bytes = bytes;
    live.stream = segment.stream;
    live.stack = known.stack != 0 ? known.stack : stack;
    live.device = device_;
    live.kind = kind;
    live.allocator = Allocator::kPyTorch;
    if (kind == AllocationKind::kVirtual) live.mapped_address = address;
    snapshot.live.push_back(live);
  }

  static Open At(const OpenByAddress& open, std::uint64_t address) {
    const auto found = open.find(address);
    return found == open.end() ? Open{} : found->second;
  }

  void Settle(const TorchSegment& segment, Snapshot& snapshot, Device& totals) {
    if (!segment.headers_agree) ++odd_.headers;
    if (segment.private_pool) CountPrivate(segment, snapshot);
    totals.live_bytes += segment.bytes;
    if (segment.expandable) {
      for (const auto& [address, bytes] : Pieces(segment.address, segment.bytes)) {
        AddLive(At(open_pieces_, address), AllocationKind::kVirtual, segment, address, bytes, segment.stack, snapshot);
        ++totals.live_count;
      }
    } else {
      AddLive(At(open_segments_, segment.address), AllocationKind::kDevice, segment, segment.address, segment.bytes,
              segment.stack, snapshot);
      ++totals.live_count;
    }
    for (const TorchBlock& block : segment.blocks) {
      snapshot.counters["torch_pending_bytes"] += block.state == TorchBlockState::kPendingFree ? block.bytes : 0;
      if (block.state != TorchBlockState::kActive) continue;
      AddLive(At(open_tensors_, block.address), AllocationKind::kTensor, segment, block.address, block.bytes,
              block.stack, snapshot);
      totals.tensor_live_bytes += block.bytes;
      ++totals.tensor_live_count;
      snapshot.counters["torch_requested_bytes"] += block.requested;
    }
  }

  // What lies idle in a private pool serves no tensor of others.
  void CountPrivate(const TorchSegment& segment, Snapshot& snapshot) {
    std::uint64_t used = 0;
    for (const TorchBlock& block : segment.blocks) used += block.state != TorchBlockState::kInactive ? block.bytes : 0;
    snapshot.counters["torch_private_segments"] += 1;
    snapshot.counters["torch_private_bytes"] += segment.bytes;
    snapshot.counters["torch_private_idle_bytes"] += segment.bytes - std::min(segment.bytes, used);
    if (private_pools_.emplace(segment.pool_first, segment.pool_second).second)
      snapshot.counters["torch_private_pools"] += 1;
  }

  std::uint32_t device_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> private_pools_;
  const std::vector<const TorchSegment*>& segments_;
  const std::vector<TorchEvent>& events_;
  std::int64_t start_us_, time_ns_ = 0;
  std::uint64_t& next_id_;
  Odd& odd_;
  TorchAction free_action_ = TorchAction::kFreeRequested;
  OpenByAddress open_tensors_, open_segments_, open_pieces_;
  std::set<std::uint64_t> cuts_;
  Gauge tensors_, reserved_;
  std::vector<std::pair<std::size_t, std::pair<std::int64_t, std::int64_t>>> refusals_;  // row, sums then
  std::vector<Row> rows_;
};

// The end of the last step may lie behind the last event.
void AddMarks(const std::vector<std::int64_t>& step_ends_us, std::int64_t start_us, std::int64_t last_us,
              std::vector<Row>& rows) {
  for (const std::int64_t end_us : step_ends_us) {
    if (end_us < start_us) continue;
    Row mark;
    mark.type = EventType::kStepMark;
    mark.time_ns = (std::min(end_us, last_us) - start_us) * 1000;
    rows.push_back(mark);
    if (end_us >= last_us) break;
  }
}

void Append(const Row& row, Events& events) {
  events.type.push_back(row.type);
  events.time_ns.push_back(row.time_ns);
  events.id.push_back(row.id);
  events.address.push_back(row.address);
  events.bytes.push_back(row.bytes);
  events.stream.push_back(row.stream);
  events.stack.push_back(row.stack);
  events.thread.push_back(0);
  events.device.push_back(row.device);
  events.kind.push_back(row.kind);
  events.flags.push_back(journal::kCallerIsPyTorch);
  events.result.push_back(0);
}

void AddNote(Snapshot& snapshot, std::uint64_t count, const char* code, const std::string& text) {
  if (count == 0) return;
  Note note;
  note.code = code;
  note.text = text;
  note.a = count;
  snapshot.notes.push_back(note);
}

void AddNotes(const TorchTrace& trace, const Odd& odd, bool recorded, Snapshot& snapshot) {
  const auto times = [](std::uint64_t count, const char* one, const char* more) {
    return std::to_string(count) + " " + (count == 1 ? one : more);
  };
  AddNote(snapshot, recorded ? 0 : 1, "torch_no_history",
          "the snapshot has no events: recording was off (torch.cuda.memory._record_memory_history), so that it shows "
          "what is held, and neither the peak nor growth");
  AddNote(snapshot, odd.headers, "torch_headers",
          times(odd.headers, "segment has a total that its blocks do not add up to",
                "segments have totals that their blocks do not add up to") +
              ": the blocks count");
  AddNote(snapshot, trace.blocks_left_out, "torch_blocks",
          times(trace.blocks_left_out, "block lies", "blocks lie") + " outside of the segment, and count nowhere");
  AddNote(snapshot, odd.twice, "torch_twice",
          times(odd.twice, "block was", "blocks were") + " allocated where another one lay: the free is missing");
  AddNote(snapshot, trace.unknown_actions, "torch_actions",
          times(trace.unknown_actions, "event is", "events are") + " of a kind that this cuheap does not know");
  AddNote(snapshot, trace.host_events, "torch_host",
          "pinned host memory was recorded too (" + std::to_string(trace.host_events) + " events), and is left out");
}

}  // namespace

void MakeTorchModel(const TorchTrace& trace, Snapshot& snapshot) {
  std::int64_t start_us = std::numeric_limits<std::int64_t>::max(), last_us = 0;
  for (const std::vector<TorchEvent>& events : trace.devices) {
    for (const TorchEvent& event : events) {
      if (event.time_us <= 0) continue;
      start_us = std::min(start_us, event.time_us);
      last_us = std::max(last_us, event.time_us);
    }
  }
  if (last_us == 0) start_us = 0;
  constexpr std::int64_t kMaxUs = std::numeric_limits<std::int64_t>::max() / 1000;
  snapshot.process.start_realtime_ns = start_us <= kMaxUs ? start_us * 1000 : 0;
  snapshot.process.duration_ns = last_us - start_us <= kMaxUs ? (last_us - start_us) * 1000 : 0;

  std::map<std::uint32_t, std::vector<const TorchSegment*>> segments;
  for (std::uint32_t device = 0; device < trace.devices.size(); ++device) {
    if (!trace.devices[device].empty()) segments[device];
  }
  for (const TorchSegment& segment : trace.segments) segments[segment.device].push_back(&segment);

  const std::vector<TorchEvent> none;
  std::uint64_t next_id = 0;
  Odd odd;
  std::vector<Row> rows;
  for (const auto& [device, list] : segments) {
    const std::vector<TorchEvent>& events = device < trace.devices.size() ? trace.devices[device] : none;
    DeviceModel model(device, list, events, start_us, next_id, odd);
    model.Make(snapshot);
    if (rows.empty())
      rows = std::move(model.rows());
    else
      rows.insert(rows.end(), model.rows().begin(), model.rows().end());
  }
  if (last_us - start_us <= kMaxUs) AddMarks(trace.step_ends_us, start_us, last_us, rows);
  if (segments.size() > 1 || !trace.step_ends_us.empty()) {
    std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.time_ns < b.time_ns; });
  }
  for (const Row& row : rows) Append(row, snapshot.events);
  std::sort(snapshot.live.begin(), snapshot.live.end(), [](const LiveAllocation& a, const LiveAllocation& b) {
    return std::pair(a.address, a.id) < std::pair(b.address, b.id);
  });
  snapshot.recorder = "pytorch";
  snapshot.completeness.end = "running";  // whoever wrote it was alive
  snapshot.completeness.events_overwritten = odd.before;
  AddNotes(trace, odd, !rows.empty(), snapshot);
}

}  // namespace cuheap::analysis
