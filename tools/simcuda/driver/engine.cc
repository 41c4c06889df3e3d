#include "tools/simcuda/driver/engine.h"

#include <signal.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "tools/simcuda/driver/call.h"
#include "tools/simcuda/driver/capture.h"
#include "tools/simcuda/driver/context.h"
#include "tools/simcuda/driver/state.h"
#include "tools/simcuda/driver/test_kernels.h"

namespace simcuda {
namespace {

// The vendor's launch queues hold about a thousand entries and block beyond that; it also bounds our memory.
constexpr size_t kLongestQueue = 1024;

// How long work that waits for a value in memory is left alone before it looks again.
constexpr auto kPollInterval = std::chrono::microseconds(200);

// How many such pauses a wait makes before it lets unrelated work run.
constexpr int kPausesBeforeOthers = 25;

class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  const sigset_t& before() const { return before_; }

 private:
  sigset_t before_;
};

}  // namespace

void StartDriverThread(void (*function)()) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread(function).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Engine::Configure(const Config& config) {
  order_ = config.order;
  progress_ms_ = config.progress_ms;
  random_.seed(config.seed);
}

uint64_t Engine::Random(uint64_t limit) { return random_() % limit; }

std::shared_ptr<Work> Engine::Enqueue(const std::shared_ptr<Stream>& stream, std::shared_ptr<Work> work) {
  if (stream->capture) return CaptureWork(stream, std::move(work));
  work->id = next_id_++;
  work->stream = stream;
  work->enqueued = std::chrono::steady_clock::now();
  work->queries_left = static_cast<int>(1 + Random(4));
  const auto add = [&](const std::shared_ptr<Stream>& other) {
    if (other && other != stream && !other->idle()) work->after.push_back(other->queue.back());
  };
  Context& context = *stream->context;
  if (stream->legacy) {
    for (const auto& other : context.streams) {
      if (other->blocking()) add(other);
    }
  } else if (stream->blocking()) {
    add(context.legacy);
  }
  std::erase_if(work->after, [](const auto& other) { return other->done; });
  if (stream->idle()) busy_.push_back(stream.get());
  stream->queue.push_back(work);
  ++pending_;
  StartThreads();
  if (stream->queue.size() > kLongestQueue) BoundQueue(*stream);
  return work;
}

void Engine::BoundQueue(Stream& stream) {
  // Only the first piece, and only if it can run: a full queue behind a stalled piece may grow.
  ++pass_;
  if (const auto work = NextToward({stream.queue.front()})) Execute(work);
}

bool Engine::Runnable(const Work& work) const {
  if (work.done || work.running || work.stalled_pass == pass_ || work.stream->queue.front().get() != &work)
    return false;
  return std::all_of(work.after.begin(), work.after.end(), [](const auto& other) { return other->done; });
}

void Engine::Collect(const std::shared_ptr<Work>& target, std::vector<std::shared_ptr<Work>>* runnable) {
  // Depth first over what the target needs: the first piece of its stream, and what that one comes after.
  std::vector<std::shared_ptr<Work>> stack{target};
  while (!stack.empty()) {
    const std::shared_ptr<Work> work = std::move(stack.back());
    stack.pop_back();
    if (work->done || work->stream->queue.empty()) continue;
    const std::shared_ptr<Work>& first = work->stream->queue.front();
    if (first->seen_round == round_) continue;
    first->seen_round = round_;
    if (Runnable(*first)) runnable->push_back(first);
    for (const auto& other : first->after) {
      if (!other->done) stack.push_back(other);
    }
  }
}

std::shared_ptr<Work> Engine::NextToward(const std::vector<std::shared_ptr<Work>>& targets) {
  std::vector<std::shared_ptr<Work>> runnable;
  ++round_;
  for (const auto& target : targets) {
    if (target) Collect(target, &runnable);
  }
  if (runnable.empty()) return nullptr;
  if (order_ == Order::kRandom) return runnable[Random(runnable.size())];
  // The latest first: a consumer that forgot to wait for its producer runs before it.
  return *std::max_element(runnable.begin(), runnable.end(),
                           [](const auto& a, const auto& b) { return a->id < b->id; });
}

std::shared_ptr<Work> Engine::NextOfAll() {
  std::vector<std::shared_ptr<Work>> runnable;
  for (Stream* stream : busy_) {
    if (Runnable(*stream->queue.front())) runnable.push_back(stream->queue.front());
  }
  if (runnable.empty()) return nullptr;
  if (order_ == Order::kRandom) return runnable[Random(runnable.size())];
  return *std::min_element(runnable.begin(), runnable.end(),
                           [](const auto& a, const auto& b) { return a->id < b->id; });
}

void Engine::Execute(const std::shared_ptr<Work>& work) {
  Context& context = *work->stream->context;
  if (context.sticky != CUDA_SUCCESS) {
    // After a sticky error the context does no work any more; only callbacks are told.
    work->failed = true;
    if (!work->run_when_lost) return Complete(work);
    work->run = [call = work->run_when_lost, error = context.sticky] {
      call(error);
      return Outcome::kDone;
    };
  }
  if (work->host_function) {
    work->running = true;
    host_queue_.push_back(work);
    host_ready_.notify_one();
    return;
  }
  Outcome outcome = Outcome::kDone;
  if (work->run) {
    InsideWork() = true;
    SetRunningContext(&context);
    outcome = work->run();
    SetRunningContext(nullptr);
    InsideWork() = false;
  }
  if (outcome == Outcome::kDone) {
    Complete(work);
  } else {
    work->stalled_pass = pass_;
  }
}

void Engine::Complete(const std::shared_ptr<Work>& work) {
  const std::shared_ptr<Stream> kept = std::move(work->stream);  // events keep their work, not its stream
  Stream& stream = *kept;
  uint64_t start = stream.clock_ns;
  for (const auto& other : work->after) start = std::max(start, other->end_ns);
  stream.clock_ns = work->end_ns = start + work->cost_ns;
  State& state = State::Get();
  if (state.config.log_work && state.log.enabled()) {
    state.log.Note("work id=" + std::to_string(work->id) + " stream=" + std::to_string(stream.id) +
                   " what=" + work->what + (work->failed ? " dropped=1" : ""));
  }
  work->done = true;
  work->after.clear();
  work->run = nullptr;
  stream.queue.pop_front();
  if (stream.idle()) {
    std::erase(busy_, &stream);
    if (stream.destroyed)
      std::erase_if(stream.context->streams, [&](const auto& other) { return other.get() == &stream; });
  }
  --pending_;
}

void Engine::Wait(const std::shared_ptr<Work>& work) { WaitAll({work}); }

void Engine::WaitAll(const std::vector<std::shared_ptr<Work>>& works) {
  const auto left = [&] {
    return std::any_of(works.begin(), works.end(), [](const auto& w) { return w && !w->done; });
  };
  // A handler that ran while we hold the lock could make no call.
  std::optional<SignalsBlocked> blocked;
  int pauses = 0;
  ++pass_;
  while (left()) {
    if (const auto next = NextToward(works)) {
      Execute(next);
      continue;
    }
    // What we wait for may itself wait for a value in memory that other queued work will write, which nobody waits for.
    if (++pauses > kPausesBeforeOthers) {
      if (const auto other = NextOfAll()) {
        Execute(other);
        continue;
      }
    }
    if (!blocked) blocked.emplace();
    Call::SleepUnlocked(kPollInterval, blocked->before());
    ++pass_;
  }
}

void Engine::Pause() {
  const SignalsBlocked blocked;
  Call::SleepUnlocked(kPollInterval, blocked.before());
}

std::vector<std::shared_ptr<Work>> Engine::Pending(Stream& stream) {
  std::vector<std::shared_ptr<Work>> works;
  if (!stream.idle()) works.push_back(stream.queue.back());
  if (stream.legacy) {
    // Waiting for the legacy stream is an action in it, and any action there waits for all blocking streams.
    for (const auto& other : stream.context->streams) {
      if (other->blocking() && !other->idle()) works.push_back(other->queue.back());
    }
  }
  return works;
}

void Engine::WaitStream(Stream& stream) { WaitAll(Pending(stream)); }

void Engine::WaitContext(Context& context) {
  std::vector<std::shared_ptr<Work>> works;
  for (const auto& stream : context.streams) {
    if (!stream->idle()) works.push_back(stream->queue.back());
  }
  WaitAll(works);
}

bool Engine::Query(const std::vector<std::shared_ptr<Work>>& works) {
  const auto done = [&] {
    return std::all_of(works.begin(), works.end(), [](const auto& w) { return !w || w->done; });
  };
  if (done()) return true;
  if (order_ == Order::kLate) {
    for (const auto& work : works) {
      // The program may poll for ever, so after a few queries the work does run.
      if (work && !work->done && work->queries_left-- > 0) return false;
    }
  }
  if (order_ == Order::kRandom) return false;  // Advance() has run some already, and will again
  ++pass_;
  while (const auto next = NextToward(works)) Execute(next);
  return done();
}

void Engine::RunToward(const std::shared_ptr<Work>& work) {
  ++pass_;
  while (const auto next = NextToward({work})) Execute(next);
}

void Engine::Advance() {
  if (order_ == Order::kLate || pending_ == 0) return;
  ++pass_;
  // Random: mostly nothing, sometimes several pieces, so that queues build up and drain at any point.
  uint64_t budget = order_ == Order::kEager ? UINT64_MAX : Random(6) == 0 ? 1 + Random(4) : 0;
  for (; budget > 0; --budget) {
    const auto next = NextOfAll();
    if (!next) return;
    Execute(next);
  }
}

void Engine::RunOnHostThread(std::function<void()> function) {
  auto work = std::make_shared<Work>();
  work->run = [function = std::move(function)] {
    function();
    return Outcome::kDone;
  };
  host_queue_.push_back(std::move(work));
  StartThreads();
  host_ready_.notify_one();
}

void Engine::StartThreads() {
  if (threads_started_) {
    if (pending_ == 1) old_ready_.notify_one();
    return;
  }
  threads_started_ = true;
  StartDriverThread([] { State::Get().engine.RunHostFunctions(); });
  if (progress_ms_ > 0) StartDriverThread([] { State::Get().engine.RunOldWork(); });
}

void Engine::RunHostFunctions() {
  std::unique_lock<std::mutex> lock(State::Get().mutex);
  ThreadLock() = &lock;
  for (;;) {
    host_ready_.wait(lock, [&] { return !host_queue_.empty(); });
    const std::shared_ptr<Work> work = host_queue_.front();
    host_queue_.pop_front();
    lock.unlock();
    InsideWork() = true;
    work->run();
    InsideWork() = false;
    lock.lock();
    if (!work->stream) continue;
    Complete(work);
    Advance();
  }
}

void Engine::RunOldWork() {
  std::unique_lock<std::mutex> lock(State::Get().mutex);
  ThreadLock() = &lock;
  const auto limit = std::chrono::milliseconds(progress_ms_);
  for (;;) {
    old_ready_.wait(lock, [&] { return pending_ > 0; });
    ++pass_;
    auto next_look = std::chrono::steady_clock::now() + limit;
    bool ran = false;
    for (Stream* stream : std::vector<Stream*>(busy_)) {
      if (stream->idle()) continue;
      const std::shared_ptr<Work> first = stream->queue.front();
      const auto due = first->enqueued + limit;
      if (due > std::chrono::steady_clock::now()) {
        next_look = std::min(next_look, due);
      } else if (Runnable(*first)) {
        Execute(first);
        ran = ran || first->done;
        if (!first->done)
          next_look = std::min(next_look, std::chrono::steady_clock::now() + std::chrono::milliseconds(1));
      }
    }
    if (!ran) old_ready_.wait_until(lock, next_look);
  }
}

}  // namespace simcuda
