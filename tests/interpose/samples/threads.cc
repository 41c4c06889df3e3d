// Several host threads with a stream and memory of their own. They take turns with their calls, so that the order of
// calls is the same in every run; the device may still do their work in any order.
#include <condition_variable>
#include <mutex>
#include <thread>

#include "tests/interpose/samples/check.h"
#include "tests/interpose/samples/kernels.h"

namespace {

constexpr unsigned kThreads = 6, kRounds = 4;
constexpr std::size_t kWords = 30'000, kBytes = kWords * sizeof(unsigned);

class Turns {
 public:
  // Runs `what` when all earlier turns are over.
  template <class What>
  void Take(unsigned turn, What&& what) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return next_ == turn; });
    what();
    ++next_;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  unsigned next_ = 0;
};

void Work(unsigned thread, Turns& turns, std::vector<unsigned>& result) {
  cudaStream_t stream = nullptr;
  unsigned *kept = nullptr, *passing = nullptr;
  for (unsigned round = 0; round < kRounds; ++round) {
    turns.Take(round * kThreads + thread, [&] {
      if (round == 0) {
        CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        CHECK_CUDA(cudaMalloc(samples::Out(&kept), kBytes));
        CHECK_CUDA(samples::LaunchFill(kept, kWords, thread, stream));
      }
      CHECK_CUDA(cudaMalloc(samples::Out(&passing), kBytes + round * 1024));
      CHECK_CUDA(samples::LaunchFill(passing, kWords, 10 * round + thread, stream));
      CHECK_CUDA(samples::LaunchAdd(kept, kept, passing, kWords, stream));
      CHECK_CUDA(samples::LaunchScaleAdd(kept, kWords, 3, 1, stream));
      CHECK_CUDA(cudaFree(passing));
      if (round + 1 < kRounds) return;
      CHECK_CUDA(cudaMemcpyAsync(result.data(), kept, kBytes, cudaMemcpyDeviceToHost, stream));
      CHECK_CUDA(cudaStreamSynchronize(stream));
      CHECK_CUDA(cudaFree(kept));
      CHECK_CUDA(cudaStreamDestroy(stream));
    });
  }
}

unsigned Expected(unsigned thread) {
  unsigned value = thread;
  for (unsigned round = 0; round < kRounds; ++round) value = (value + 10 * round + thread) * 3 + 1;
  return value;
}

}  // namespace

int main() {
  CHECK_CUDA(cudaSetDevice(0));
  Turns turns;
  std::vector<std::vector<unsigned>> results(kThreads, std::vector<unsigned>(kWords));
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (unsigned i = 0; i < kThreads; ++i) threads.emplace_back(Work, i, std::ref(turns), std::ref(results[i]));
  for (std::thread& thread : threads) thread.join();
  for (unsigned i = 0; i < kThreads; ++i) {
    std::printf("thread %u, checksum %llx\n", i, samples::Checksum(results[i]));
    samples::Expect(results[i][kWords - 1] == Expected(i), "last word");
  }
  return 0;
}
