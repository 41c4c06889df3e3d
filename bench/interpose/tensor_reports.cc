// The hook of PyTorch's reports, called as PyTorch's allocator would: pairs of a tensor handed out and one taken back,
// a window of them alive, from a stack of a given depth. Prints the median nanoseconds a pair.
//
// usage: tensor_reports LIBC10_CUDA FRAMES WINDOW
#include <dlfcn.h>
#include <time.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

using Usage = void (*)(void*, std::int64_t, std::size_t, std::size_t, int, int);

constexpr std::int64_t kBytes = 512;
constexpr int kBatches = 25;
constexpr int kPairs = 20000;

double Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

void* Find(const char* library, const char* name) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  void* found = handle == nullptr ? nullptr : dlsym(handle, name);
  if (found == nullptr) {
    std::fprintf(stderr, "%s has no %s\n", library, name);
    std::exit(1);
  }
  return found;
}

template <typename Function>
[[gnu::noinline]] void Below(int depth, const Function& function) {
  if (depth == 0) {
    function();
  } else {
    Below(depth - 1, function);
  }
  asm volatile("" : : : "memory");  // no tail call
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const auto init = reinterpret_cast<int (*)(unsigned)>(Find("libcuda.so.1", "cuInit"));
  const auto usage = reinterpret_cast<Usage>(Find(argv[1], "FakeUsage"));
  const int frames = std::atoi(argv[2]);
  const auto window = static_cast<std::uint64_t>(std::atoll(argv[3]));
  init(0);
  std::uint64_t live = 0, made = 0, freed = 0;
  const auto report = [&](std::uint64_t number, std::int64_t bytes) {
    live += static_cast<std::uint64_t>(bytes);
    usage(reinterpret_cast<void*>(0x7F0000000000 + number * kBytes), bytes, live, 0, 1, 0);
  };
  std::vector<double> times;
  Below(frames, [&] {
    while (made < window) report(made++, kBytes);
    for (int batch = -3; batch < kBatches; ++batch) {
      const double began = Now();
      for (int i = 0; i < kPairs; ++i) {
        report(freed++, -kBytes);
        report(made++, kBytes);
      }
      if (batch >= 0) times.push_back((Now() - began) / kPairs);
    }
  });
  std::sort(times.begin(), times.end());
  std::printf("%.1f\n", times[times.size() / 2]);
  return 0;
}
