// A program in miniature for tests of the analyses: it allocates, frees and synchronises at lines of made-up code, and
// its snapshot is what the recorder would have left. Every call takes 1 ms of its time.
//
//   SyntheticProgram program;
//   const auto leak = program.Line("train.cc", 57, "LogLoss");
//   program.Malloc(leak, 4096); program.Synchronize(program.Line("train.cc", 90, "Step"));
//   const Report report = MakeReport(program.Snapshot());
#ifndef CUHEAP_TESTS_ANALYSIS_REPORTS_SYNTHETIC_H_
#define CUHEAP_TESTS_ANALYSIS_REPORTS_SYNTHETIC_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analysis/snapshot.h"

namespace cuheap::analysis {

class SyntheticProgram {
 public:
  SyntheticProgram() {
    snapshot_.cuheap_version = "test";
    snapshot_.process.pid = 4711;
    snapshot_.process.host = "host";
    snapshot_.process.executable = "/opt/me/bin/train";
    snapshot_.process.command_line = {"./train", "--fast"};
    snapshot_.completeness.end = "exited";
    snapshot_.devices.push_back({});
    snapshot_.devices[0].name = "Test GPU";
    snapshot_.devices[0].total_bytes = std::uint64_t{8} << 30;
    snapshot_.threads.push_back({4711, "train", 0, 0});
    snapshot_.threads.push_back({4712, "worker", 0, 0});
    program_module_ = AddModule("/opt/me/bin/train");
    runtime_module_ = AddModule("/usr/local/cuda/lib64/libcudart.so.13");
    main_frame_ = AddFrame("train.cc", 200, "main", program_module_);
    runtime_frame_ = AddFrame("", 0, "cudaMalloc", runtime_module_);
  }

  // A stack cudaMalloc <- function at file:line <- main.
  std::uint32_t Line(const std::string& file, std::uint32_t line, const std::string& function) {
    return AddStack({runtime_frame_, AddFrame(file, line, function, program_module_), main_frame_});
  }
  // cudaMalloc <- wrapper <- caller <- main.
  std::uint32_t Through(std::uint32_t wrapper_stack, std::uint32_t caller_stack) {
    return AddStack({runtime_frame_, snapshot_.stacks[wrapper_stack].frames[1],
                     snapshot_.stacks[caller_stack].frames[1], main_frame_});
  }
  std::uint32_t AddStack(std::vector<std::uint32_t> frames) {
    snapshot_.stacks.push_back({std::move(frames)});
    return static_cast<std::uint32_t>(snapshot_.stacks.size() - 1);
  }
  std::uint32_t AddFrame(const std::string& file, std::uint32_t line, const std::string& function,
                         std::uint32_t module) {
    Frame frame;
    frame.kind = FrameKind::kNative;
    frame.file = String(file);
    frame.line = line;
    frame.function = String(function);
    frame.module = module;
    frame.offset = 0x1000 + 16 * snapshot_.frames.size();
    snapshot_.frames.push_back(frame);
    return static_cast<std::uint32_t>(snapshot_.frames.size() - 1);
  }
  std::uint32_t AddPythonFrame(const std::string& file, std::uint32_t line, const std::string& function) {
    const std::uint32_t frame = AddFrame(file, line, function, 0);
    snapshot_.frames[frame].kind = FrameKind::kPython;
    snapshot_.frames[frame].offset = 0;
    return frame;
  }
  std::uint32_t AddModule(const std::string& path) {
    Module module;
    module.path = path;
    snapshot_.modules.push_back(module);
    return static_cast<std::uint32_t>(snapshot_.modules.size());
  }

  std::uint64_t Malloc(std::uint32_t stack, std::uint64_t bytes, AllocationKind kind = AllocationKind::kDevice,
                       std::uint16_t flags = 0) {
    LiveAllocation block;
    block.id = ++next_id_;
    block.address = 0x700000000000 + (block.id << 32);
    block.bytes = bytes;
    block.reserved_bytes = (bytes + 511) / 512 * 512;
    block.stack = stack;
    block.kind = kind;
    block.device = device_;
    block.thread = 1;
    block.allocator = (flags & 2) != 0 ? Allocator::kPyTorch : Allocator::kProgram;
    block.served = (flags & 1) != 0;
    Event(EventType::kAllocate, block, flags);
    block.time_ns = now_ns_;
    live_[block.id] = block;
    Account(block, true);
    return block.id;
  }
  void Free(std::uint64_t id, std::uint16_t flags = 0) {
    LiveAllocation block = live_.at(id);
    const std::uint32_t stack = block.stack;
    block.stack = 0;
    Event(EventType::kFree, block, flags);
    block.stack = stack;
    live_.erase(id);
    freed_[id] = block;
    Account(block, false);
  }
  void FreeFails(std::uint64_t id) {
    Free(id);
    Event(EventType::kFreeFailed, freed_.at(id), 0);
    live_[id] = freed_.at(id);
    Account(live_[id], true);
  }
  void Fails(std::uint32_t stack, std::uint64_t bytes, std::uint16_t result = 2) {
    LiveAllocation asked;
    asked.bytes = bytes;
    asked.stack = stack;
    asked.kind = AllocationKind::kDevice;
    asked.device = device_;
    Event(EventType::kAllocateFailed, asked, 0);
    snapshot_.events.result.SetBack(result);
  }
  void Bare(EventType type, std::uint32_t stack) {
    LiveAllocation nothing;
    nothing.stack = stack;
    Event(type, nothing, 0);
  }
  void Synchronize(std::uint32_t stack) { Bare(EventType::kSynchronize, stack); }
  void Mark() { Bare(EventType::kStepMark, 0); }
  void Segment(std::uint64_t address, std::uint64_t bytes) {
    LiveAllocation segment;
    segment.id = ++next_id_;
    segment.address = address;
    segment.bytes = segment.reserved_bytes = bytes;
    segment.kind = AllocationKind::kPoolSegment;
    segment.device = device_;
    Event(EventType::kSegmentAllocate, segment, 0);
    segment.time_ns = now_ns_;
    snapshot_.segments.push_back(segment);
    snapshot_.devices[device_].reserved_bytes += bytes;
    snapshot_.devices[device_].reserved_peak_bytes =
        std::max(snapshot_.devices[device_].reserved_peak_bytes, snapshot_.devices[device_].reserved_bytes);
  }
  void UseDevice(std::uint32_t device) {
    device_ = device;
    while (snapshot_.devices.size() <= device) {
      snapshot_.devices.push_back(snapshot_.devices[0]);
      snapshot_.devices.back().ordinal = static_cast<std::uint32_t>(snapshot_.devices.size() - 1);
      snapshot_.devices.back().peak_bytes = snapshot_.devices.back().live_bytes = snapshot_.devices.back().live_count =
          0;
    }
  }
  void Sleep(std::int64_t ns) { now_ns_ += ns; }
  // For the wrapper that places a block: the address it gets instead of its own.
  void Place(std::uint64_t id, std::uint64_t address) { live_.at(id).address = address; }

  // Loses all events up to now, as a ring does that is too small.
  void ForgetEvents() {
    snapshot_.completeness.events_overwritten += snapshot_.events.size();
    snapshot_.events = {};
  }

  analysis::Snapshot Snapshot() const {
    analysis::Snapshot result = snapshot_;
    for (const auto& [id, block] : live_) result.live.push_back(block);
    std::sort(result.live.begin(), result.live.end(),
              [](const auto& a, const auto& b) { return a.address < b.address; });
    result.process.duration_ns = now_ns_ + 1'000'000;
    return result;
  }
  analysis::Snapshot& raw() { return snapshot_; }
  std::int64_t now_ns() const { return now_ns_; }

 private:
  std::uint32_t String(const std::string& text) {
    if (text.empty()) return 0;
    snapshot_.strings.push_back(text);
    return static_cast<std::uint32_t>(snapshot_.strings.size() - 1);
  }
  void Event(EventType type, const LiveAllocation& block, std::uint16_t flags) {
    now_ns_ += 1'000'000;
    Events& events = snapshot_.events;
    events.type.push_back(type);
    events.time_ns.push_back(now_ns_);
    events.id.push_back(block.id);
    events.address.push_back(block.address);
    events.bytes.push_back(block.bytes);
    events.stream.push_back(block.stream);
    events.stack.push_back(block.stack);
    events.thread.push_back(1);
    events.device.push_back(block.device);
    events.kind.push_back(block.kind);
    events.flags.push_back(flags);
    events.result.push_back(0);
  }
  void Account(const LiveAllocation& block, bool allocated) {
    if (!IsDeviceMemory(block.kind)) return;
    Device& device = snapshot_.devices[block.device];
    device.live_bytes += allocated ? block.bytes : -block.bytes;
    device.live_count += allocated ? 1 : -1;
    if (device.live_bytes > device.peak_bytes) {
      device.peak_bytes = device.live_bytes;
      device.peak_ns = now_ns_;
    }
  }

  analysis::Snapshot snapshot_;
  std::map<std::uint64_t, LiveAllocation> live_, freed_;
  std::uint64_t next_id_ = 0;
  std::int64_t now_ns_ = 0;
  std::uint32_t device_ = 0, program_module_ = 0, runtime_module_ = 0, main_frame_ = 0, runtime_frame_ = 0;
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_TESTS_ANALYSIS_REPORTS_SYNTHETIC_H_
