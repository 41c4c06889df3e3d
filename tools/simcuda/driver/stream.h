// Streams, and the pieces of work queued in them.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tools/simcuda/driver/cuda_api.h"

namespace simcuda {

struct Context;
struct NodeDetails;
struct SharedEvent;
struct Stream;
struct StreamCapture;

// What running a piece of work led to.
enum class Outcome {
  kDone,
  kAgain,  // it waits for a value in memory: try later
};

// One piece of work. It can run once it is the first of its stream and everything in `after` is done.
struct Work {
  uint64_t id = 0;        // in order of enqueueing, over the whole process
  const char* what = "";  // for the log
  std::shared_ptr<Stream> stream;
  std::vector<std::shared_ptr<Work>> after;  // cleared as soon as the work is done
  std::function<Outcome()> run;              // may be empty: a marker
  std::function<void(CUresult)>
      run_when_lost;           // instead of `run`, when the context is lost; on the host-function thread
  bool host_function = false;  // `run` executes on the host-function thread, without the lock
  bool done = false;
  bool running = false;       // a host function that has been started
  bool failed = false;        // dropped because its context was lost
  uint64_t stalled_pass = 0;  // the last pass in which `run` answered kAgain
  uint64_t seen_round = 0;    // used by the search for runnable work
  int queries_left = 0;       // how many queries still answer NOT_READY under Order::kLate
  uint64_t cost_ns = 2000;    // on the simulated clock
  uint64_t end_ns = 0;        // when it ended on the simulated clock
  std::chrono::steady_clock::time_point enqueued;
  std::shared_ptr<const NodeDetails> details;  // what a graph node made of it answers (graph.h); may be null
};

struct Stream {
  CUstream handle = nullptr;
  uint64_t id = 0;  // cuStreamGetId: never repeated
  Context* context = nullptr;
  std::shared_ptr<Context> owner;  // keeps the context while there is work; the cycle ends when the context does
  unsigned flags = 0;              // CU_STREAM_NON_BLOCKING
  int priority = 0;
  bool legacy = false;  // the context's legacy default stream
  bool per_thread = false;
  bool destroyed = false;
  std::deque<std::shared_ptr<Work>> queue;  // not done yet
  std::map<int, CUstreamAttrValue> attributes;
  uint64_t clock_ns = 0;  // simulated time at which the stream is free
  std::shared_ptr<StreamCapture> capture;  // what is queued becomes nodes of a graph (capture.h); null: it runs

  bool blocking() const { return !legacy && (flags & CU_STREAM_NON_BLOCKING) == 0; }
  bool idle() const { return queue.empty(); }
};

struct Event {
  CUevent handle = nullptr;
  Context* context = nullptr;
  unsigned flags = 0;
  std::shared_ptr<Work> record;         // null: never recorded by this process
  std::shared_ptr<SharedEvent> shared;  // of events that may have handles, and of those of other processes
  // Last recorded in a capturing stream: it stands for nodes of that capture and has no work.
  std::shared_ptr<StreamCapture> captured;
};

}  // namespace simcuda
