// One rank of a training in miniature, for ranks_test.py: on the device that LOCAL_RANK says, weights, and a batch
// every step. What makes ranks differ comes as arguments:
//   ranks_program STEPS [leak=RANK] [big=RANK] [device=ORDINAL] [hungry=RANK]
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

void* Allocate(std::size_t bytes) {
  void* block = nullptr;
  if (cudaMalloc(&block, bytes) != cudaSuccess) std::exit(3);
  return block;
}

int Number(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? -1 : std::atoi(value);
}

}  // namespace

__attribute__((noinline)) void* LoadWeights() {
  return Allocate(8 * kMiB);  // WEIGHTS
}

__attribute__((noinline)) void* LoadBatch(bool big) {
  return Allocate((big ? 12 : 4) * kMiB);  // BATCH
}

__attribute__((noinline)) void LogLoss() {
  Allocate(kMiB);  // LEAK
}

__attribute__((noinline)) void Grab() {
  for (;;) Allocate(64 * kMiB);  // HUNGRY
}

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 10, rank = Number("RANK");
  int leak = -1, big = -1, hungry = -1, device = Number("LOCAL_RANK");
  for (int i = 2; i < argc; ++i) {
    std::sscanf(argv[i], "leak=%d", &leak);
    std::sscanf(argv[i], "big=%d", &big);
    std::sscanf(argv[i], "device=%d", &device);
    std::sscanf(argv[i], "hungry=%d", &hungry);
  }
  if (cudaSetDevice(device < 0 ? 0 : device) != cudaSuccess) return 2;
  void* weights = LoadWeights();
  for (int step = 0; step < steps; ++step) {
    void* batch = LoadBatch(rank == big && rank >= 0);
    if (rank == leak && rank >= 0) LogLoss();
    cudaDeviceSynchronize();
    cudaFree(batch);
  }
  if (rank == hungry && rank >= 0) Grab();
  cudaFree(weights);
  return 0;
}
