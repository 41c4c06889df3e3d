// What recording costs: an allocation and its free in the journal, and a stack, beside libunwind's for the same depth
// where the build found one. The journal lies where TMPDIR says; on tmpfs (TMPDIR=/dev/shm) first touches of its pages
// are cheapest.
#include <benchmark/benchmark.h>
#include <stdlib.h>
#include <unistd.h>
#ifdef CUHEAP_BENCH_LIBUNWIND
#include <libunwind.h>
#endif

#include <cstdint>
#include <filesystem>
#include <string>

#include "tests/interpose/stacks/capture_library.h"

namespace cuheap {
namespace {

// One journal for all benchmarks of this process.
class JournalDirectory {
 public:
  JournalDirectory() {
    path_ = (std::filesystem::temp_directory_path() / "cuheap-bench-XXXXXX").string();
    if (mkdtemp(path_.data()) == nullptr || !CaptureLibraryStart(path_.c_str())) abort();
  }
  ~JournalDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

 private:
  std::string path_;
};

void NeedJournal() { static JournalDirectory directory; }

template <typename Function>
[[gnu::noinline]] std::uint64_t Below(int depth, const Function& function) {
  const std::uint64_t result = depth == 0 ? function() : Below(depth - 1, function);
  asm volatile("" : : : "memory");  // no tail call
  return result;
}

// Pairs over a window of live blocks, so that freed and allocated addresses differ.
void BM_AllocateAndFree(benchmark::State& state) {
  NeedJournal();
  CaptureLibraryConfigure(state.range(1) != 0, 64);
  const auto window = static_cast<std::uint64_t>(state.range(0));
  const std::uint64_t base = 0x7F0000000000 + static_cast<std::uint64_t>(state.thread_index()) * 0x100000000;
  for (std::uint64_t i = 0; i < window; ++i) CaptureLibraryAllocate(base + i * 512, 512);
  std::uint64_t next = window;
  Below(static_cast<int>(state.range(1)), [&]() -> std::uint64_t {
    for (auto _ : state) {
      CaptureLibraryFree(base + (next - window) * 512);
      CaptureLibraryAllocate(base + next * 512, 512);
      ++next;
    }
    return 0;
  });
  for (std::uint64_t i = next - window; i < next; ++i) CaptureLibraryFree(base + i * 512);
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()));
  CaptureLibraryConfigure(true, 64);
}
BENCHMARK(BM_AllocateAndFree)->ArgNames({"live", "frames"})->Args({1, 0})->Args({1000, 0})->Args({100000, 0});
BENCHMARK(BM_AllocateAndFree)->ArgNames({"live", "frames"})->Args({1000, 20});
BENCHMARK(BM_AllocateAndFree)->ArgNames({"live", "frames"})->Args({1000, 0})->Threads(2);

void BM_Capture(benchmark::State& state) {
  NeedJournal();
  Below(static_cast<int>(state.range(0)), [&]() -> std::uint64_t {
    for (auto _ : state) benchmark::DoNotOptimize(CaptureLibraryCapture(false));
    return 0;
  });
}
BENCHMARK(BM_Capture)->ArgName("frames")->Arg(0)->Arg(20)->Arg(40);

void BM_Walk(benchmark::State& state) {
  std::uint64_t addresses[128];
  Below(static_cast<int>(state.range(0)), [&]() -> std::uint64_t {
    for (auto _ : state) benchmark::DoNotOptimize(CaptureLibraryWalkStack(addresses, 128).depth);
    return 0;
  });
}
BENCHMARK(BM_Walk)->ArgName("frames")->Arg(0)->Arg(20)->Arg(40);

#ifdef CUHEAP_BENCH_LIBUNWIND
void BM_Libunwind(benchmark::State& state) {
  void* addresses[128];
  Below(static_cast<int>(state.range(0)), [&]() -> std::uint64_t {
    for (auto _ : state) benchmark::DoNotOptimize(unw_backtrace(addresses, 128));
    return 0;
  });
}
BENCHMARK(BM_Libunwind)->ArgName("frames")->Arg(0)->Arg(20)->Arg(40);
#endif

}  // namespace
}  // namespace cuheap
