#include "interpose/recorder/recorder.h"
#include "interpose/recorder/state.h"

namespace cuheap::recorder {

void DriverCalled(journal::DriverCall call, std::uint64_t duration_ns, StackId stack) {
  RecordingScope scope;
  Recorder* recorder = scope.recorder();
  if (recorder == nullptr) return;
  journal::DriverTime& time = recorder->file.header()->driver_time[static_cast<std::size_t>(call)];
  time.count.fetch_add(1, std::memory_order_relaxed);
  time.total_ns.fetch_add(duration_ns, std::memory_order_relaxed);
  Raise(time.longest_ns, duration_ns);
  if (duration_ns < journal::kSlowDriverCallNs) return;
  EventData event;
  event.type = journal::EventType::kDriverCall;
  event.time_ns = MonotonicNs();
  event.address = static_cast<std::uint64_t>(call);
  event.bytes = duration_ns;
  event.stack = stack;
  event.device = 0xFFFF;
  AppendEvent(*recorder, *CurrentThread(*recorder), event);
}

}  // namespace cuheap::recorder
