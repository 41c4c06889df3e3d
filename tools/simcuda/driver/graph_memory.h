// Memory that belongs to graphs: what allocation nodes stand for (CUDA C++ Programming Guide, "Graph Memory Nodes").
//
// The address is fixed when the node is made. Physical memory comes with a launch that contains the node, and stays
// until the executable graph is gone or cuDeviceGraphMemTrim finds it unused. Between the free and the next allocation
// the pages are inaccessible, and their contents are lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "tools/simcuda/driver/cuda_api.h"
#include "tools/simcuda/driver/stream.h"

namespace simcuda {

struct Device;
struct Graph;

// A range of addresses, shared by allocations of one graph of which each is freed before the next is made.
struct GraphRange {
  GraphRange(Device* on, uint64_t at, size_t bytes) : device(on), address(at), reserved(bytes) {}
  GraphRange(const GraphRange&) = delete;
  GraphRange& operator=(const GraphRange&) = delete;
  ~GraphRange();
  Device* const device;
  const uint64_t address;
  const size_t reserved;   // whole pages
  bool backed = false;     // physical memory is charged
  unsigned in_flight = 0;  // launches that have not ended
};

struct GraphAllocation {
  std::shared_ptr<GraphRange> range;
  size_t bytes = 0;
  uint64_t graph_id = 0;            // of the graph that owns it
  bool freed_in_owner = false;      // a free node of the owning graph exists
  bool freed_elsewhere = false;     // one of another graph
  bool outstanding = false;         // allocated by a launch, and no free has been queued
  const void* free_node = nullptr;  // of the owning graph
};

// By device ordinal.
struct GraphMemoryUse {
  uint64_t used = 0, used_high = 0;
  uint64_t cached = 0;  // physical memory of no graph any more
  uint64_t reserved_high = 0;
};

struct GraphMemory {
  std::map<uint64_t, std::weak_ptr<GraphAllocation>> by_address;  // the newest at each address
  std::map<uint64_t, std::shared_ptr<GraphAllocation>> outstanding;
  std::map<int, GraphMemoryUse> use;
};

// Takes addresses for `bytes`; `reuse`: a range whose last allocation ends before this one begins, or null.
// Errors: OUT_OF_MEMORY (no address space).
CUresult MakeGraphAllocation(Device& device, size_t bytes, uint64_t graph_id, const std::shared_ptr<GraphRange>& reuse,
                             std::shared_ptr<GraphAllocation>* allocation);
// The allocation at `address`, or null.
std::shared_ptr<GraphAllocation> FindGraphAllocation(uint64_t address);
// Charges physical memory for the range. Errors: OUT_OF_MEMORY.
CUresult BackGraphRange(GraphRange& range);
// What the nodes do when they run.
void OpenGraphRange(const GraphRange& range);
void CloseGraphRange(const GraphRange& range);
// Frees an outstanding allocation from outside graphs, in stream order, or at once when `stream` is null.
// Errors: INVALID_VALUE when there is none at the address.
CUresult FreeGraphAllocation(uint64_t address, const std::shared_ptr<Stream>& stream);
// The range is not mapped by an executable graph any more: its memory stays with the device for other graphs.
void UnbackGraphRange(GraphRange& range);

}  // namespace simcuda
