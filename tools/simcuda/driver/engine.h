// Runs queued work, later, in an order that the documentation allows and a program may not expect.
//
// Late:   only what somebody waits for runs, and only what that needs; among several pieces the one queued last. A
// query
//         answers NOT_READY a few times (by seed) before the work is done.
// Random: at each driver call some pieces run, chosen by seed.
// Eager:  a piece runs as soon as it can.
// In every order a piece that is older than SIMCUDA_PROGRESS_MS runs on a background thread, since a GPU makes progress
// by itself and a program may wait for that without a driver call (a flag in mapped memory).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tools/simcuda/driver/config.h"
#include "tools/simcuda/driver/stream.h"

namespace simcuda {

struct Context;

// All functions: with the driver's lock held (ThreadLock()). Those that wait give it up while nothing can run.
class Engine {
 public:
  void Configure(const Config& config);

  // Queues `work` in `stream` (or makes it a node of a graph while the stream captures), with what the default-stream rules add to its dependencies (Driver API reference,
  // "Stream synchronization behavior").
  std::shared_ptr<Work> Enqueue(const std::shared_ptr<Stream>& stream, std::shared_ptr<Work> work);

  // Runs what is needed until `work` is done. Null is done.
  void Wait(const std::shared_ptr<Work>& work);
  void WaitAll(const std::vector<std::shared_ptr<Work>>& works);
  // Everything that is queued in the stream now; for the legacy default stream also in the streams it waits for.
  void WaitStream(Stream& stream);
  // Everything that is queued in the context now.
  void WaitContext(Context& context);
  // Whether all of `works` are done; if not, brings them nearer as the order asks.
  bool Query(const std::vector<std::shared_ptr<Work>>& works);
  // Runs what brings `work` nearer and can run now; waits for nothing.
  void RunToward(const std::shared_ptr<Work>& work);
  // Gives the lock up for a moment: for a wait that this process's work alone does not end.
  void Pause();
  // What WaitStream waits for.
  std::vector<std::shared_ptr<Work>> Pending(Stream& stream);

  // Runs `function` on the host-function thread, in no stream.
  void RunOnHostThread(std::function<void()> function);

  // Called at the start and end of every driver call: the random and eager orders run work here.
  void Advance();

  // Chooses by the seed, from 0 to limit - 1.
  uint64_t Random(uint64_t limit);

  size_t pending() const { return pending_; }

 private:
  // One runnable piece that `targets` need, or null. Pieces that stalled in this pass or are running are skipped.
  std::shared_ptr<Work> NextToward(const std::vector<std::shared_ptr<Work>>& targets);
  // Any runnable piece of any stream, chosen by the order.
  std::shared_ptr<Work> NextOfAll();
  void Collect(const std::shared_ptr<Work>& work, std::vector<std::shared_ptr<Work>>* runnable);
  bool Runnable(const Work& work) const;
  void Execute(const std::shared_ptr<Work>& work);
  void Complete(const std::shared_ptr<Work>& work);
  void StartThreads();
  void RunHostFunctions();
  void RunOldWork();
  void BoundQueue(Stream& stream);

  Order order_ = Order::kLate;
  int64_t progress_ms_ = 0;
  std::mt19937_64 random_{1};
  uint64_t next_id_ = 1;
  uint64_t round_ = 1;  // one search for runnable work
  uint64_t pass_ = 1;   // work that waits for a value in memory is tried once a pass
  size_t pending_ = 0;
  bool threads_started_ = false;
  std::vector<Stream*> busy_;  // streams with queued work
  std::deque<std::shared_ptr<Work>> host_queue_;
  std::condition_variable host_ready_;  // host_queue_ has work
  std::condition_variable old_ready_;   // work was queued
};

// A thread of the driver's own, which gets none of the program's signals.
void StartDriverThread(void (*function)());

}  // namespace simcuda
