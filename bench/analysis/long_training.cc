// A training loop that records as many events as asked, for measuring what reads them.
//
//   long_training EVENTS
//
// Only its calls count, not its arithmetic, so it makes none: two dozen layers deep, a forward pass that leaves
// activations and takes temporaries, a backward pass that frees them in reverse order, gradients, sequences of varying
// length (so that sizes vary), a thread that fetches batches through memory of its own, a validation now and then, a
// leak in each of them, and a synchronisation at the end of each step. A step has some 500 events.
#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

namespace {

#define CHECK_CUDA(call)                                                                                     \
  do {                                                                                                       \
    const cudaError_t status = (call);                                                                       \
    if (status != cudaSuccess) {                                                                             \
      std::fprintf(stderr, "%s:%d: %s failed: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(status)); \
      std::exit(1);                                                                                          \
    }                                                                                                        \
  } while (false)

constexpr std::size_t kKiB = 1024;
constexpr int kLayers = 24;
constexpr int kValidateEvery = 50;

std::atomic<std::uint64_t> events{0};

class Tensor {
 public:
  explicit Tensor(std::size_t bytes) {
    CHECK_CUDA(cudaMalloc(&data_, bytes));
    events.fetch_add(2, std::memory_order_relaxed);  // its free comes too
  }
  ~Tensor() {
    if (data_ != nullptr) CHECK_CUDA(cudaFree(data_));
  }
  Tensor(Tensor&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  Tensor& operator=(Tensor&&) = delete;

 private:
  void* data_ = nullptr;
};

using Tape = std::vector<Tensor>;

// One layer of each kind, so that stacks differ from layer to layer as in a model of many modules.
template <int kLayer>
struct Layer {
  [[gnu::noinline]] static void Attention(std::size_t tokens, Tape* tape) {
    tape->emplace_back(tokens * 192);            // queries, keys, values
    const Tensor scores(tokens * (tokens / 8));  // a temporary
    tape->emplace_back(tokens * 64);             // weighted values
    tape->emplace_back(tokens * 64);             // projection
  }
  [[gnu::noinline]] static void FeedForward(std::size_t tokens, Tape* tape) {
    tape->emplace_back(tokens * 256);
    const Tensor gelu(tokens * 256);
    tape->emplace_back(tokens * 64);
  }
  [[gnu::noinline]] static void Forward(std::size_t tokens, Tape* tape) {
    Attention(tokens, tape);
    FeedForward(tokens, tape);
    if constexpr (kLayer + 1 < kLayers) Layer<kLayer + 1>::Forward(tokens, tape);
  }
  [[gnu::noinline]] static void Backward(std::size_t tokens, Tape* tape, Tape* gradients) {
    if constexpr (kLayer + 1 < kLayers) Layer<kLayer + 1>::Backward(tokens, tape, gradients);
    for (int saved = 0; saved < 5; ++saved) {
      const Tensor incoming(tokens * 64);
      tape->pop_back();
    }
    gradients->emplace_back(48 * kKiB);
  }
};

[[gnu::noinline]] void Validate(std::size_t tokens) {
  Tape tape;
  Layer<0>::Forward(tokens, &tape);
  void* score = nullptr;
  CHECK_CUDA(cudaMalloc(&score, 2 * kKiB));  // LEAK: every validation
  events.fetch_add(1, std::memory_order_relaxed);
}

[[gnu::noinline]] void Step(int step) {
  const std::size_t tokens = 256 + 8 * (static_cast<std::size_t>(step) * 37 % 64);
  Tape tape, gradients;
  Layer<0>::Forward(tokens, &tape);
  const Tensor loss(4);
  Layer<0>::Backward(tokens, &tape, &gradients);
  if (step % kValidateEvery == kValidateEvery - 1) Validate(tokens);
  CHECK_CUDA(cudaDeviceSynchronize());
  events.fetch_add(1, std::memory_order_relaxed);
}

// Fetches batches beside the training, until it ends.
void Load(const std::atomic<bool>& done) {
  while (!done.load(std::memory_order_relaxed)) {
    const Tensor staged(512 * kKiB);
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t wanted = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 100'000;
  Tape weights;
  for (int layer = 0; layer < kLayers; ++layer) {
    weights.emplace_back(48 * kKiB);
    weights.emplace_back(96 * kKiB);  // what Adam keeps of it
  }
  std::atomic<bool> done = false;
  std::thread loader([&] { Load(done); });
  int steps = 0;
  while (events.load(std::memory_order_relaxed) < wanted) Step(steps++);
  done = true;
  loader.join();
  std::printf("%d steps, %llu events\n", steps, static_cast<unsigned long long>(events.load()));
  return 0;
}
