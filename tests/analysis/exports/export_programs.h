// Programs in miniature whose snapshots the tests of exports use: between them every kind of memory that an export has
// a place for, and names that no format likes.
#ifndef CUHEAP_TESTS_ANALYSIS_EXPORTS_EXPORT_PROGRAMS_H_
#define CUHEAP_TESTS_ANALYSIS_EXPORTS_EXPORT_PROGRAMS_H_

#include <string>
#include <utility>
#include <vector>

#include "analysis/snapshot.h"
#include "interpose/journal/format.h"
#include "tests/analysis/reports/synthetic.h"

namespace cuheap::analysis {

inline constexpr const char* kHostileName = "Step<a;b>\\ \"q\"\n\x1b[31m\t,\xe2\x80\xae";

// Leaks on two devices, pinned host memory, a pool with packed blocks, a failed allocation.
inline Snapshot LeakyProgram() {
  SyntheticProgram program;
  const auto step = program.Line("/src/train; now.cc", 57, kHostileName),
             log = program.Line("/src/log.cc", 12, "LogLoss"), load = program.Line("C:\\src\\load.cc", 9, "Load"),
             sync = program.Line("/src/train.cc", 90, "Loop");
  program.Malloc(load, 1 << 20);
  program.Malloc(load, 300'000, AllocationKind::kHostPinned);
  program.Segment(0x10000000, 4 << 20);
  for (int i = 0; i < 3; ++i) {
    const auto id = program.Malloc(load, 1000, AllocationKind::kDevice, journal::kServedFromPool);
    program.Place(id, 0x10000000 + 4096 * static_cast<std::uint64_t>(i));
  }
  for (int i = 0; i < 30; ++i) {
    program.UseDevice(0);
    const auto activation = program.Malloc(step, 500'000);
    program.Malloc(log, 4096);
    program.UseDevice(1);
    program.Malloc(log, 8192);
    program.UseDevice(0);
    program.Free(activation);
    program.Synchronize(sync);
    program.Mark();
  }
  program.Fails(step, std::uint64_t{1} << 40);
  return program.Snapshot();
}

// Events of the first part are lost; the peak lies in what is left, and part of what it held is not known.
inline Snapshot CutProgram() {
  SyntheticProgram program;
  const auto line = program.Line("a.cc", 1, "A");
  program.Malloc(line, 1000);
  const auto lost = program.Malloc(line, 5000);
  program.ForgetEvents();
  const auto peak = program.Malloc(line, 2000);
  program.Free(lost);
  program.Free(peak);
  program.raw().devices[0].peak_bytes += 700;  // of a block whose two events are lost
  return program.Snapshot();
}

}  // namespace cuheap::analysis

#endif  // CUHEAP_TESTS_ANALYSIS_EXPORTS_EXPORT_PROGRAMS_H_
