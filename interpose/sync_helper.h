// Context-wide synchronisations with a deadline, made by a thread of ours.
//
// cuCtxSynchronize cannot be given up once it began, so a helper makes the call and the requester waits for the helper,
// at most until the deadline. If the deadline passes, the helper goes on, and what it proves is told later.
#ifndef CUHEAP_INTERPOSE_SYNC_HELPER_H_
#define CUHEAP_INTERPOSE_SYNC_HELPER_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "interpose/capture_watch.h"
#include "interpose/driver_functions.h"

namespace cuheap {

// Who hears of the helper's synchronisations, on the helper's thread.
class SyncListener {
 public:
  virtual ~SyncListener() = default;
  struct Bracket {
    std::uint64_t ticket = 0;
    std::uint64_t mark = 0;
    std::uint64_t point = 0;
  };
  virtual Bracket SynchronizationBegins(std::uint64_t context) = 0;
  virtual void SynchronizationEnds(std::uint64_t context, Bracket bracket, CUresult result) = 0;
};

class SyncHelper {
 public:
  // All three must outlive the process's use of the helper; it is never destroyed while its thread runs.
  SyncHelper(const DriverFunctions& driver, const CaptureWatch& captures, SyncListener& listener)
      : driver_(driver), captures_(captures), listener_(listener) {}

  // Waits until work submitted to the context before the call has completed: CUDA_SUCCESS; CUDA_ERROR_NOT_READY if the
  // deadline passed, a capture is open, the context is closing, or there is no helper; otherwise the driver's error.
  CUresult Synchronize(std::uint64_t context, std::chrono::milliseconds deadline);

  // Before a context is destroyed: waits for the helper to leave it, and keeps it away until Reopen.
  // Source: CUDA Driver API, cuCtxDestroy: no call may use the context meanwhile.
  void Close(std::uint64_t context);
  void Reopen(std::uint64_t context);

 private:
  struct Job {
    std::uint64_t context = 0;
    bool done = false;
    CUresult result = CUDA_ERROR_NOT_READY;
  };

  bool StartThread();  // with mutex_ held
  static void* ThreadMain(void* self);
  void Run();
  CUresult RunOne(std::uint64_t context);

  const DriverFunctions& driver_;
  const CaptureWatch& captures_;
  SyncListener& listener_;
  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable finished_;
  bool started_ = false;
  std::vector<std::shared_ptr<Job>> waiting_;
  std::shared_ptr<Job> running_;
  std::unordered_set<std::uint64_t> closed_;
};

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_SYNC_HELPER_H_
