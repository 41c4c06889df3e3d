// A training loop in miniature, with two memory leaks of the kind that real ones have.
//
//   leaky_training [STEPS]        60 steps unless told
//
// It speaks the CUDA runtime API only and needs no kernels of its own: copies and memsets stand for the arithmetic, so
// that a plain C++ compiler builds it. Everything else is as in a real loop: weights and optimizer state live for the
// whole run, activations for one step, batches are copied on one stream while another one computes, a validation runs
// every tenth step, and each step ends with a synchronisation.
//
// The two mistakes are marked LEAK. Both are easy to make and hard to see: nothing crashes, the program's own output
// looks right, and memory runs out hours later. Run it under cuheap and the report names both lines:
//
//   cuheap run -o demo.json -- ./leaky_training
//   cuheap report demo.json
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

namespace {

// Any failed call ends the program, and says which call and where: the habit that makes CUDA errors findable.
#define CHECK_CUDA(call)                                                                                     \
  do {                                                                                                       \
    const cudaError_t status = (call);                                                                       \
    if (status != cudaSuccess) {                                                                             \
      std::fprintf(stderr, "%s:%d: %s failed: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(status)); \
      std::exit(1);                                                                                          \
    }                                                                                                        \
  } while (false)

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;

// Device memory with an owner: what every buffer of this program ought to be.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::size_t bytes) : bytes_(bytes) { CHECK_CUDA(cudaMalloc(&data_, bytes)); }
  ~DeviceBuffer() {
    if (data_ != nullptr) CHECK_CUDA(cudaFree(data_));
  }
  DeviceBuffer(DeviceBuffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(DeviceBuffer&&) = delete;

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

class Stream {
 public:
  Stream() { CHECK_CUDA(cudaStreamCreate(&stream_)); }
  ~Stream() { CHECK_CUDA(cudaStreamDestroy(stream_)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class Trainer {
 public:
  Trainer() : host_batch_(kBatchBytes / sizeof(float), 1.0F) {
    for (const std::size_t bytes : kLayerBytes) {
      weights_.emplace_back(bytes);
      moments_.emplace_back(2 * bytes);  // what Adam keeps: two numbers for each weight
      CHECK_CUDA(cudaMemset(weights_.back().data(), 0, bytes));
      CHECK_CUDA(cudaMemset(moments_.back().data(), 0, 2 * bytes));
    }
  }

  void Step(int step) {
    const DeviceBuffer batch(kBatchBytes);
    CHECK_CUDA(cudaMemcpyAsync(batch.data(), host_batch_.data(), batch.bytes(), cudaMemcpyHostToDevice, copy_.get()));
    CHECK_CUDA(cudaStreamSynchronize(copy_.get()));

    std::vector<DeviceBuffer> activations;
    const void* input = batch.data();
    for (const DeviceBuffer& weight : weights_) {
      input = Forward(weight, input, &activations);
    }
    for (std::size_t layer = weights_.size(); layer-- > 0;) {
      Backward(layer, activations[layer]);
    }
    LogLoss(input);
    if (step % kValidateEvery == 0) Validate(step);
    CHECK_CUDA(cudaDeviceSynchronize());
  }

  std::size_t logged() const { return loss_history_.size(); }

 private:
  static constexpr std::size_t kBatchBytes = 2 * kMiB;
  static constexpr std::size_t kLayerBytes[] = {3 * kMiB, 4 * kMiB, 4 * kMiB, 1536 * kKiB};
  static constexpr int kValidateEvery = 10;

  const void* Forward(const DeviceBuffer& weight, const void* input, std::vector<DeviceBuffer>* activations) {
    activations->emplace_back(weight.bytes() / 2);
    const DeviceBuffer& output = activations->back();
    CHECK_CUDA(cudaMemcpyAsync(output.data(), input, kRowBytes, cudaMemcpyDeviceToDevice, compute_.get()));
    return output.data();
  }

  void Backward(std::size_t layer, const DeviceBuffer& activation) {
    const DeviceBuffer gradient(weights_[layer].bytes());
    CHECK_CUDA(
        cudaMemcpyAsync(gradient.data(), activation.data(), kRowBytes, cudaMemcpyDeviceToDevice, compute_.get()));
    CHECK_CUDA(
        cudaMemcpyAsync(moments_[layer].data(), gradient.data(), kRowBytes, cudaMemcpyDeviceToDevice, compute_.get()));
    CHECK_CUDA(cudaStreamSynchronize(compute_.get()));
  }

  // Keeps the losses for a plot at the end. What it keeps is device memory, and with it the whole buffer that the loss
  // was computed in; the plot needed one number. In PyTorch: `history.append(loss)` instead of `loss.item()`.
  void LogLoss(const void* output) {
    void* loss = nullptr;
    CHECK_CUDA(cudaMalloc(&loss, kLossBytes));  // LEAK: every step, never freed
    CHECK_CUDA(cudaMemcpyAsync(loss, output, kRowBytes, cudaMemcpyDeviceToDevice, compute_.get()));
    loss_history_.push_back(loss);
  }

  // Evaluates on held-out data. The early return forgets what was allocated above it: a leak so rare that a look at
  // memory use after a few steps shows nothing.
  void Validate(int step) {
    void* predictions = nullptr;
    CHECK_CUDA(cudaMalloc(&predictions, kPredictionBytes));  // LEAK: whenever the result is a new best
    CHECK_CUDA(cudaMemsetAsync(predictions, 0, kPredictionBytes, validate_.get()));
    CHECK_CUDA(cudaStreamSynchronize(validate_.get()));
    const bool new_best = step % (2 * kValidateEvery) == 0;  // the simulated model improves every second time
    if (new_best) {
      best_step_ = step;
      return;
    }
    CHECK_CUDA(cudaFree(predictions));
  }

  static constexpr std::size_t kRowBytes = 64 * kKiB;
  static constexpr std::size_t kLossBytes = 768 * kKiB;
  static constexpr std::size_t kPredictionBytes = 5 * kMiB;

  Stream copy_;
  Stream compute_;
  Stream validate_;
  std::vector<float> host_batch_;
  std::vector<DeviceBuffer> weights_;
  std::vector<DeviceBuffer> moments_;
  std::vector<void*> loss_history_;
  int best_step_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 60;
  if (steps <= 0) {
    std::fprintf(stderr, "usage: leaky_training [STEPS]\n");
    return 2;
  }
  CHECK_CUDA(cudaSetDevice(0));
  Trainer trainer;
  for (int step = 1; step <= steps; ++step) {
    trainer.Step(step);
  }
  std::printf("trained %d steps, logged %zu losses\n", steps, trainer.logged());
  return 0;
}
