#include "interpose/sync_helper.h"

#include "interpose/helper_thread.h"
#include "interpose/no_cancel.h"
#include "interpose/thread_guard.h"

namespace cuheap {
namespace {

CUcontext AsHandle(std::uint64_t context) { return reinterpret_cast<CUcontext>(context); }

}  // namespace

CUresult SyncHelper::Synchronize(std::uint64_t context, std::chrono::milliseconds deadline) {
  if (deadline.count() == 0) return CUDA_ERROR_NOT_READY;
  const NoCancel whole;  // bounded by the deadline
  const auto until = std::chrono::steady_clock::now() + deadline;
  std::unique_lock lock(mutex_);
  if (captures_.AnyOpen() || closed_.contains(context) || (!started_ && !StartThread())) return CUDA_ERROR_NOT_READY;
  // A synchronisation that has begun may miss the caller's work; one that has not yet will cover it.
  std::shared_ptr<Job> job;
  for (const auto& other : waiting_) {
    if (other->context == context) job = other;
  }
  if (job == nullptr) {
    job = std::make_shared<Job>();
    job->context = context;
    waiting_.push_back(job);
    work_.notify_one();
  }
  finished_.wait_until(lock, until, [&job] { return job->done; });
  return job->result;
}

void SyncHelper::Close(std::uint64_t context) {
  const NoCancel whole;
  std::unique_lock lock(mutex_);
  closed_.insert(context);
  finished_.wait(lock, [this, context] { return running_ == nullptr || running_->context != context; });
}

void SyncHelper::Reopen(std::uint64_t context) {
  const std::lock_guard lock(mutex_);
  closed_.erase(context);
}

bool SyncHelper::StartThread() { return started_ = StartHelperThread("cuheap-sync", ThreadMain, this); }

void* SyncHelper::ThreadMain(void* self) {
  const ThreadGuard guard;  // whatever the driver calls from here is not the program's
  static_cast<SyncHelper*>(self)->Run();
  return nullptr;
}

void SyncHelper::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (!work_.wait_for(lock, kHelperIdles, [this] { return !waiting_.empty(); })) {
      started_ = false;
      return;
    }
    running_ = waiting_.front();
    waiting_.erase(waiting_.begin());
    const std::uint64_t context = running_->context;
    CUresult result = CUDA_ERROR_NOT_READY;
    if (!closed_.contains(context)) {
      lock.unlock();
      result = RunOne(context);
      lock.lock();
    }
    running_->result = result;
    running_->done = true;
    running_.reset();
    finished_.notify_all();
  }
}

CUresult SyncHelper::RunOne(std::uint64_t context) {
  if (captures_.AnyOpen()) return CUDA_ERROR_NOT_READY;
  CUresult result = driver_.cuCtxSetCurrent(AsHandle(context));
  if (result != CUDA_SUCCESS) return result;
  if (driver_.cuThreadExchangeStreamCaptureMode != nullptr) {
    // A capture that another thread opens meanwhile must not be invalidated by us.
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    driver_.cuThreadExchangeStreamCaptureMode(&mode);
  }
  const SyncListener::Bracket bracket = listener_.SynchronizationBegins(context);
  result = driver_.cuCtxSynchronize();
  listener_.SynchronizationEnds(context, bracket, result);
  driver_.cuCtxSetCurrent(nullptr);
  return result;
}

}  // namespace cuheap
