// What every entry point does before and after its work. The generated functions use it like this:
//
//   static const EntryInfo kInfo{"cuMemAlloc_v2", 0};
//   Call call(kInfo);                                            // takes the driver's lock
//   CUresult result = call.Begin();                              // may the call be made at all?
//   if (result == CUDA_SUCCESS) result = call.Finish(impl::cuMemAlloc_v2(dptr, bytesize));
//   if (call.logging()) { ... }                                  // still under the lock: the log has the calls' order
//
// One lock guards the whole driver. Whatever waits for work gives it up meanwhile (engine.h), and host functions run
// without it.
#pragma once

#include <signal.h>

#include <chrono>
#include <mutex>

#include "tools/simcuda/driver/cuda_api.h"

namespace simcuda {

enum EntryFlags : unsigned {
  kPerThread = 1,     // the _ptsz and _ptds variants: stream 0 is the thread's own default stream
  kBeforeInit = 2,    // works before cuInit
  kNotSimulated = 4,  // answers CUDA_ERROR_NOT_SUPPORTED
};

struct EntryInfo {
  const char* name;  // as exported
  unsigned flags;
};

class Call {
 public:
  explicit Call(const EntryInfo& info);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Errors: NOT_PERMITTED (called from a host function or a test kernel), NOT_INITIALIZED (before cuInit, or in a child
  // that was forked after it), an injected fault, NOT_SUPPORTED (not simulated).
  CUresult Begin();
  // Lets queued work advance as the order allows and passes `result` on.
  CUresult Finish(CUresult result);

  bool logging() const { return logging_; }
  const EntryInfo& info() const { return info_; }

  // Gives the lock up for so long, with the signal mask that the program had. Nothing of the driver's is held
  // meanwhile, so a signal handler may call CUDA, jump out of the wait for good, or the thread may be cancelled: what
  // the vendor's driver does then is not documented, and ours must not be what fails first.
  static void SleepUnlocked(std::chrono::microseconds time, const sigset_t& program_mask);

  // The call that this thread is making; null outside of one.
  static const Call* Current();
  // Whether the call that this thread is making treats stream 0 as the thread's own default stream.
  static bool PerThread();

 private:
  const EntryInfo& info_;
  std::unique_lock<std::mutex> lock_;
  Call* outer_ = nullptr;
  bool logging_ = false;
};

// The lock that this thread holds, so that a wait can give it up. Null on a thread that holds none.
std::unique_lock<std::mutex>*& ThreadLock();

// True while this thread runs a host function or a test kernel: CUDA calls are not permitted there.
bool& InsideWork();

}  // namespace simcuda
