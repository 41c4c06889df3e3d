// The one simulated driver of the process.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "tools/simcuda/driver/array.h"
#include "tools/simcuda/driver/capture.h"
#include "tools/simcuda/driver/config.h"
#include "tools/simcuda/driver/context.h"
#include "tools/simcuda/driver/engine.h"
#include "tools/simcuda/driver/graph.h"
#include "tools/simcuda/driver/handle_table.h"
#include "tools/simcuda/driver/ipc.h"
#include "tools/simcuda/driver/log.h"
#include "tools/simcuda/driver/memory.h"
#include "tools/simcuda/driver/module.h"
#include "tools/simcuda/driver/pool.h"
#include "tools/simcuda/driver/shared_events.h"
#include "tools/simcuda/driver/stream.h"
#include "tools/simcuda/driver/virtual_memory.h"

namespace simcuda {

struct State {
  // Made at the first call and never destroyed: programs call the driver from their own destructors.
  static State& Get();

  std::mutex mutex;  // guards everything here
  Config config;
  Log log;
  bool initialized = false;  // cuInit succeeded
  bool forked = false;       // this is a child forked after cuInit: nothing works any more
  bool exited = false;       // the exit handler ran, and calls are refused from then on
  Engine engine;
  Memory memory;
  std::vector<std::unique_ptr<Device>> devices;
  HandleTable<CUcontext, Context> contexts{0x51000040, HandleReuse::kRecycled};
  HandleTable<CUstream, Stream> streams{0x52000040, HandleReuse::kRecycled};
  HandleTable<CUevent, Event> events{0x53000040, HandleReuse::kRecycled};
  HandleTable<CUmemoryPool, Pool> pools{0x54000040, HandleReuse::kUnique};
  Arrays arrays;
  Modules modules;
  VirtualMemory virtual_memory;
  ImportedMemory ipc;
  SharedEvents shared_events;
  Graphs graphs;
  Captures captures;
  std::vector<std::shared_ptr<Pool>> all_pools;  // destroyed ones with live blocks included
  uint64_t next_context_id = 1;
  uint64_t next_stream_id = 1;

 private:
  State();
};

}  // namespace simcuda
