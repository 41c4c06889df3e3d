#include "tools/simcuda/driver/state.h"

#include <pthread.h>

#include <cstdlib>
#include <string>

#include "tools/simcuda/driver/test_kernels.h"

namespace simcuda {
namespace {

// The child of a fork gets a consistent, unlocked state, and an initialised driver says NOT_INITIALIZED there (CUDA
// does not survive fork). Its threads are gone, so nothing runs in it.
void BeforeFork() { State::Get().mutex.lock(); }
void AfterForkInParent() { State::Get().mutex.unlock(); }
void AfterForkInChild() {
  State& state = State::Get();
  if (state.initialized) state.forked = true;
  state.mutex.unlock();
}

void AtExit() {
  State& state = State::Get();
  const std::lock_guard<std::mutex> lock(state.mutex);
  state.exited = state.config.refuse_at_exit;
  if (state.forked || !state.log.enabled()) return;
  state.memory.ForEachBlock([&](const Block& block) {
    state.log.Note("held address=" + HexText(block.base) + " bytes=" + std::to_string(block.size) +
                   " kind=" + KindName(block.kind));
  });
  state.log.Note("exit blocks=" + std::to_string(state.memory.block_count()));
}

}  // namespace

State& State::Get() {
  static State* const state = new State;
  static const bool registered = [] {
    pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild);
    return std::atexit(AtExit) == 0;
  }();
  static_cast<void>(registered);
  return *state;
}

State::State() : config(Config::FromEnvironment()) {
  log.Open(config.log_path);
  engine.Configure(config);
  RegisterBuiltInKernels(modules);
}

}  // namespace simcuda
