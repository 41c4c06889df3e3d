#include "tools/simcuda/driver/call.h"

#include <poll.h>
#include <time.h>

#include <cstdio>
#include <cstring>
#include <set>
#include <string>

#include "tools/simcuda/driver/capture.h"
#include "tools/simcuda/driver/context.h"
#include "tools/simcuda/driver/engine.h"
#include "tools/simcuda/driver/state.h"

namespace simcuda {
namespace {

thread_local Call* current_call = nullptr;

// "cuMemcpyHtoDAsync_v2_ptsz" is the same function to a fault as "cuMemcpyHtoDAsync_v2".
bool SameFunction(const char* exported, const std::string& name) {
  if (name == exported) return true;
  const size_t length = name.size();
  if (std::strncmp(exported, name.c_str(), length) != 0) return false;
  return std::strcmp(exported + length, "_ptsz") == 0 || std::strcmp(exported + length, "_ptds") == 0;
}

CUresult InjectedFault(State& state, const char* name) {
  for (Fault& fault : state.config.faults) {
    if (!SameFunction(name, fault.name) || ++fault.seen != fault.nth) continue;
    const auto code = static_cast<CUresult>(fault.code);
    if (fault.sticky) {
      if (Context* context = CurrentContextOrNull()) context->sticky = code;
    }
    return code;
  }
  return CUDA_SUCCESS;
}

void SayNotSimulated(const char* name) {
  static auto& said = *new std::set<std::string>;
  if (!said.insert(name).second) return;
  std::fprintf(stderr, "simcuda: %s is not simulated; it answers CUDA_ERROR_NOT_SUPPORTED\n", name);
  // The tables behind it are the vendor's private interface, and the runtime inside the program needs them: everything
  // it does from now on fails, so this is the place to say why.
  if (std::strcmp(name, "cuGetExportTable") == 0) {
    std::fputs(
        "simcuda: a program with the static CUDA runtime (what nvcc links by default) asks for it, and cannot run on "
        "the "
        "simulated driver: compile it with `nvcc -cudart shared`\n",
        stderr);
  }
}

}  // namespace

std::unique_lock<std::mutex>*& ThreadLock() {
  thread_local std::unique_lock<std::mutex>* lock = nullptr;
  return lock;
}

bool& InsideWork() {
  thread_local bool inside = false;
  return inside;
}

const Call* Call::Current() { return current_call; }

bool Call::PerThread() { return current_call != nullptr && (current_call->info_.flags & kPerThread) != 0; }

Call::Call(const EntryInfo& info) : info_(info) {
  // A test kernel runs under the lock: taking it again would dead-lock instead of answering NOT_PERMITTED.
  if (InsideWork()) return;
  State& state = State::Get();
  lock_ = std::unique_lock<std::mutex>(state.mutex);
  ThreadLock() = &lock_;
  outer_ = current_call;
  current_call = this;
  logging_ = state.log.enabled() && !state.forked;
}

Call::~Call() {
  if (!lock_.owns_lock()) return;
  current_call = outer_;
  ThreadLock() = nullptr;
}

void Call::SleepUnlocked(std::chrono::microseconds time, const sigset_t& program_mask) {
  std::unique_lock<std::mutex>& lock = *ThreadLock();
  Call* const call = current_call;
  ThreadLock() = nullptr;
  current_call = nullptr;
  lock.unlock();
  const timespec pause{time.count() / 1'000'000, time.count() % 1'000'000 * 1000};
  ppoll(nullptr, 0, &pause, &program_mask);
  lock.lock();
  current_call = call;
  ThreadLock() = &lock;
}

CUresult Call::Begin() {
  if (InsideWork()) return CUDA_ERROR_NOT_PERMITTED;
  State& state = State::Get();
  // Source: CUDA Driver API, CUresult: "This indicates that the CUDA driver is in the process of shutting down."
  if (state.exited && !state.forked) return CUDA_ERROR_DEINITIALIZED;
  if ((info_.flags & kBeforeInit) == 0) {
    if (!state.initialized || state.forked) return CUDA_ERROR_NOT_INITIALIZED;
  } else if (state.forked && std::strcmp(info_.name, "cuInit") == 0) {
    return CUDA_ERROR_NOT_INITIALIZED;
  }
  if (!state.config.faults.empty()) {
    if (const CUresult code = InjectedFault(state, info_.name)) return code;
  }
  if ((info_.flags & kNotSimulated) != 0) {
    SayNotSimulated(info_.name);
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (const CUresult code = CheckUnsafeCall(info_.name)) return code;
  if (state.initialized) state.engine.Advance();
  return CUDA_SUCCESS;
}

CUresult Call::Finish(CUresult result) {
  State& state = State::Get();
  if (state.initialized && !state.forked) state.engine.Advance();
  return result;
}

}  // namespace simcuda
