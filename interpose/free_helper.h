// Frees of segments by the driver, with a deadline.
//
// cuMemFree may wait for all work of the context (CUDA Driver API, cuMemFree: "this API may perform implicit
// synchronization"), and some of it may wait for the very thread that asks the pool for memory: a collective whose
// other half it has yet to queue, a word that it has yet to write. Natively that thread frees nothing here, so we must
// not wait for ever in its name: a helper makes the call, and the requester waits for the helper until the deadline.
#ifndef CUHEAP_INTERPOSE_FREE_HELPER_H_
#define CUHEAP_INTERPOSE_FREE_HELPER_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "interpose/driver_functions.h"

namespace cuheap {

class FreeHelper {
 public:
  // driver must outlive the process's use of the helper; it is never destroyed while its thread runs.
  explicit FreeHelper(const DriverFunctions& driver) : driver_(driver) {}

  enum class Outcome {
    kDone,   // *result is the driver's
    kGoing,  // the deadline passed: the driver is at it, and nothing else may be done with the address
    kBusy,   // an earlier free is still going: not begun
    kNone,   // there is no helper: not begun
  };
  // context: what is current while the driver frees.
  Outcome Free(std::uint64_t context, std::uint64_t address, std::chrono::milliseconds deadline, CUresult* result);

  // Before a context is destroyed: waits until the helper has left it.
  void Leave(std::uint64_t context);

 private:
  struct Job {
    std::uint64_t context = 0;
    std::uint64_t address = 0;
    bool done = false;
    CUresult result = CUDA_ERROR_NOT_READY;
  };

  bool StartThread();  // with mutex_ held
  static void* ThreadMain(void* self);
  void Run();
  CUresult RunOne(const Job& job);

  const DriverFunctions& driver_;
  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable finished_;
  bool started_ = false;
  bool stuck_ = false;        // job_'s deadline has passed
  std::shared_ptr<Job> job_;  // at most one, waiting or running
};

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_FREE_HELPER_H_
