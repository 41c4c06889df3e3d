#include "tests/analysis/test_snapshot.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <tuple>

namespace cuheap::analysis {
namespace {

Device DistinctDevice(std::uint32_t n) {
  Device device;
  device.ordinal = n;
  device.name = "Device \"" + std::to_string(n) + "\" \xC3\xA9\n";
  device.uuid = "GPU-" + std::to_string(n);
  const std::uint64_t base = UINT64_MAX - 100 * (n + 1);
  device.total_bytes = base + 1;
  device.compute_capability = 90 + n;
  device.live_bytes = base + 2;
  device.live_count = base + 3;
  device.peak_bytes = base + 4;
  device.peak_ns = 5000 + n;
  device.reserved_bytes = base + 6;
  device.reserved_peak_bytes = base + 7;
  device.quarantined_bytes = base + 8;
  device.driver_free_at_start = base + 9;
  device.tensor_live_bytes = base + 10;
  device.tensor_live_count = base + 11;
  device.tensor_peak_bytes = base + 12;
  device.tensor_peak_ns = 6000 + n;
  device.framework_held_bytes = base + 14;
  device.framework_held_peak_bytes = base + 15;
  return device;
}

LiveAllocation DistinctAllocation(std::uint64_t n, AllocationKind kind, Allocator allocator) {
  LiveAllocation a;
  a.id = (n << 40) | 1;
  a.address = 0xFFFFF00000000000u + n * 4096;
  a.bytes = 0xB1B2B3B4B5B6B7B8u + n;
  a.reserved_bytes = 0xC1C2C3C4C5C6C7C8u + n;
  a.stream = 0xD1D2D3D4D5D6D7D8u + n;
  a.context = 0xE1E2E3E4E5E6E7E8u + n;
  a.time_ns = -7 + static_cast<std::int64_t>(n) * 1000;
  a.stack = 1;
  a.thread = 2;
  a.device = static_cast<std::uint32_t>(n);
  a.kind = kind;
  a.allocator = allocator;
  a.served = n % 2 == 1;
  a.mapped_address = 0x9192939495969798u + n;
  return a;
}

void AddEvent(Events& events, EventType type, AllocationKind kind, std::uint64_t n) {
  events.type.push_back(type);
  events.time_ns.push_back(static_cast<std::int64_t>(n) * 11 - 20);
  events.id.push_back(UINT64_MAX - n);
  events.address.push_back(0xA1A2A3A4A5A6A700u + n);
  events.bytes.push_back(0xB1B2B3B4B5B6B700u + n);
  events.stream.push_back(0xC1C2C3C4C5C6C700u + n);
  events.stack.push_back(static_cast<std::uint32_t>(n % 3));
  events.thread.push_back(static_cast<std::uint32_t>((n + 1) % 3));
  events.device.push_back(kUnknownDevice - static_cast<std::uint32_t>(n));
  events.kind.push_back(kind);
  events.flags.push_back(static_cast<std::uint16_t>(0xF100 + n));
  events.result.push_back(static_cast<std::uint16_t>(0xF200 + n));
}

Process DistinctProcess() {
  Process process;
  process.pid = 4711;
  process.parent_pid = 4710;
  process.host = "host-a";
  process.executable = "/opt/a program/train";
  process.working_directory = "/srv/\xE2\x82\xAC";
  process.command_line = {"train", "--name", "a \"b\" \\ c", ""};
  process.command_line_cut = true;
  process.start_realtime_ns = 1'700'000'000'123'456'789;
  process.duration_ns = 987'654'321;
  process.launcher = {{"LOCAL_RANK", "3"}, {"RANK", "7"}};
  return process;
}

void AddFramesAndStacks(Snapshot& snapshot) {
  snapshot.strings = {"", "main", "main.cc", "no symbol covers this address", "helper"};
  Frame native{FrameKind::kNative, 1, 2, 33, 2, 0xFFFFFFFFFFF1u, false, 0};
  Frame inlined{FrameKind::kNative, 4, 2, 44, 2, 0xFFFFFFFFFFF1u, true, 0};
  Frame python{FrameKind::kPython, 4, 2, 55, 0, 0, false, 0};
  Frame unknown{FrameKind::kNative, 0, 0, 0, 1, 77, false, 3};
  snapshot.frames = {Frame{}, native, inlined, python, unknown};
  snapshot.stacks = {Stack{}, Stack{{2, 1, 4}, true, false, true, 0, 0}, Stack{{3}, false, true, false, 2, 3}};
}

auto Tie(const Device& d) {
  return std::tie(d.ordinal, d.name, d.uuid, d.total_bytes, d.compute_capability, d.live_bytes, d.live_count,
                  d.peak_bytes, d.peak_ns, d.reserved_bytes, d.reserved_peak_bytes, d.quarantined_bytes,
                  d.driver_free_at_start, d.tensor_live_bytes, d.tensor_live_count, d.tensor_peak_bytes,
                  d.tensor_peak_ns, d.framework_held_bytes, d.framework_held_peak_bytes);
}
auto Tie(const Module& m) { return std::tie(m.path, m.path_cut, m.build_id, m.load_bias, m.begin, m.end); }
auto Tie(const ThreadInfo& t) { return std::tie(t.tid, t.name, t.first_ns, t.last_ns); }
auto Tie(const DriverTime& t) { return std::tie(t.call, t.count, t.total_ns, t.longest_ns); }
auto Tie(const Note& n) { return std::tie(n.code, n.text, n.time_ns, n.a, n.b); }
auto Tie(const LiveAllocation& a) {
  return std::tie(a.id, a.address, a.bytes, a.reserved_bytes, a.stream, a.context, a.time_ns, a.stack, a.thread,
                  a.device, a.kind, a.allocator, a.served, a.mapped_address);
}

template <typename Row>
void ExpectSameRows(const char* table, const std::vector<Row>& a, const std::vector<Row>& b) {
  ASSERT_EQ(a.size(), b.size()) << table;
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(Tie(a[i]) == Tie(b[i])) << table << "[" << i << "]";
}

}  // namespace

Snapshot DistinctSnapshot() {
  Snapshot snapshot;
  snapshot.cuheap_version = "9.8.7";
  snapshot.process = DistinctProcess();
  snapshot.simulated = true;
  snapshot.configuration = {{"free_barrier", "auto"}, {"pool", "off"}};
  snapshot.counters = {{"allocations", UINT64_MAX}, {"frees", 0}};
  snapshot.completeness = {101, 102, 103, 104, "killed", 12, 11};
  snapshot.driver_time = {{"allocate", 21, UINT64_MAX, 22}, {"free_wait", 23, 24, 25}};
  AddFramesAndStacks(snapshot);
  snapshot.modules = {{"/opt/a program/train", false, "00ff", 0x1111, 0x2222, 0x3333},
                      {"/usr/lib/libx.so", true, "", UINT64_MAX, UINT64_MAX - 1, UINT64_MAX - 2}};
  snapshot.threads = {{501, "main", 1, 0}, {502, "worker", -2, 99}};
  snapshot.devices = {DistinctDevice(0), DistinctDevice(3)};
  snapshot.live = {DistinctAllocation(1, AllocationKind::kDevice, Allocator::kProgram),
                   DistinctAllocation(2, AllocationKind::kHostVirtual, Allocator::kPyTorch)};
  snapshot.segments = {DistinctAllocation(3, AllocationKind::kPoolSegment, Allocator::kCuheap)};
  // Every event type and every kind.
  for (std::uint64_t n = 0; n < 16; ++n) {
    AddEvent(snapshot.events, static_cast<EventType>(n % 13), static_cast<AllocationKind>(n % 16), n);
  }
  snapshot.notes = {{"self_check", "text with\ttab", 12, 13, UINT64_MAX}, {"forked", "", 0, 0, 0}};
  return snapshot;
}

void ExpectSameSnapshot(const Snapshot& a, const Snapshot& b) {
  EXPECT_EQ(a.cuheap_version, b.cuheap_version);
  const Process &p = a.process, &q = b.process;
  EXPECT_TRUE(std::tie(p.pid, p.parent_pid, p.host, p.executable, p.working_directory, p.command_line,
                       p.command_line_cut, p.start_realtime_ns, p.duration_ns, p.launcher) ==
              std::tie(q.pid, q.parent_pid, q.host, q.executable, q.working_directory, q.command_line,
                       q.command_line_cut, q.start_realtime_ns, q.duration_ns, q.launcher))
      << "process";
  EXPECT_EQ(a.simulated, b.simulated);
  EXPECT_EQ(a.configuration, b.configuration);
  EXPECT_EQ(a.counters, b.counters);
  const Completeness &c = a.completeness, &d = b.completeness;
  EXPECT_TRUE(std::tie(c.events_overwritten, c.events_dropped, c.live_dropped, c.stacks_failed, c.end, c.exit_status,
                       c.exit_signal) == std::tie(d.events_overwritten, d.events_dropped, d.live_dropped,
                                                  d.stacks_failed, d.end, d.exit_status, d.exit_signal))
      << "completeness";
  EXPECT_EQ(a.strings, b.strings);
  EXPECT_TRUE(a.frames == b.frames) << "frames";
  EXPECT_TRUE(a.stacks == b.stacks) << "stacks";
  ExpectSameRows("modules", a.modules, b.modules);
  ExpectSameRows("threads", a.threads, b.threads);
  ExpectSameRows("devices", a.devices, b.devices);
  ExpectSameRows("live", a.live, b.live);
  ExpectSameRows("segments", a.segments, b.segments);
  ExpectSameRows("notes", a.notes, b.notes);
  ExpectSameRows("driver_time", a.driver_time, b.driver_time);
  const Events &e = a.events, &f = b.events;
  EXPECT_EQ(e.type, f.type);
  EXPECT_EQ(e.time_ns, f.time_ns);
  EXPECT_EQ(e.id, f.id);
  EXPECT_EQ(e.address, f.address);
  EXPECT_EQ(e.bytes, f.bytes);
  EXPECT_EQ(e.stream, f.stream);
  EXPECT_EQ(e.stack, f.stack);
  EXPECT_EQ(e.thread, f.thread);
  EXPECT_EQ(e.device, f.device);
  EXPECT_EQ(e.kind, f.kind);
  EXPECT_EQ(e.flags, f.flags);
  EXPECT_EQ(e.result, f.result);
}

}  // namespace cuheap::analysis
