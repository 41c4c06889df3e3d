#include "interpose/free_helper.h"

#include "interpose/helper_thread.h"
#include "interpose/no_cancel.h"
#include "interpose/thread_guard.h"

namespace cuheap {

FreeHelper::Outcome FreeHelper::Free(std::uint64_t context, std::uint64_t address, std::chrono::milliseconds deadline,
                                     CUresult* result) {
  if (deadline.count() == 0) return Outcome::kNone;
  const NoCancel whole;
  const auto until = std::chrono::steady_clock::now() + deadline;
  std::unique_lock lock(mutex_);
  if (!started_ && !StartThread()) return Outcome::kNone;
  // Others' frees take their turn, unless the one under way was too slow already.
  if (stuck_) return Outcome::kBusy;
  if (!finished_.wait_until(lock, until, [this] { return job_ == nullptr; })) return Outcome::kBusy;
  const auto job = std::make_shared<Job>();
  job->context = context;
  job->address = address;
  job_ = job;
  work_.notify_one();
  if (!finished_.wait_until(lock, until, [&job] { return job->done; })) {
    stuck_ = true;
    return Outcome::kGoing;
  }
  *result = job->result;
  return Outcome::kDone;
}

void FreeHelper::Leave(std::uint64_t context) {
  const NoCancel whole;
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [this, context] { return job_ == nullptr || job_->context != context; });
}

bool FreeHelper::StartThread() { return started_ = StartHelperThread("cuheap-free", ThreadMain, this); }

void* FreeHelper::ThreadMain(void* self) {
  const ThreadGuard guard;  // whatever the driver calls from here is not the program's
  static_cast<FreeHelper*>(self)->Run();
  return nullptr;
}

void FreeHelper::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (!work_.wait_for(lock, kHelperIdles, [this] { return job_ != nullptr; })) {
      started_ = false;
      return;
    }
    const std::shared_ptr<Job> job = job_;
    lock.unlock();
    const CUresult result = RunOne(*job);
    lock.lock();
    job->result = result;
    job->done = true;
    job_.reset();
    stuck_ = false;
    finished_.notify_all();
  }
}

CUresult FreeHelper::RunOne(const Job& job) {
  CUresult result = driver_.cuCtxSetCurrent(reinterpret_cast<CUcontext>(job.context));
  if (result != CUDA_SUCCESS) return result;
  if (driver_.cuThreadExchangeStreamCaptureMode != nullptr) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;  // an open capture must not be invalidated by us
    driver_.cuThreadExchangeStreamCaptureMode(&mode);
  }
  result = driver_.cuMemFree_v2(job.address);
  driver_.cuCtxSetCurrent(nullptr);
  return result;
}

}  // namespace cuheap
