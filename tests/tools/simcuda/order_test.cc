// When queued work runs: what the documentation orders, and that nothing else does.
#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "tests/tools/simcuda/simulated.h"

namespace cuheap::testing {
namespace {

const char* const kOrders[] = {"late", "random", "eager"};
constexpr int kSeeds = 20;
constexpr size_t kWords = 64;

// Runs `body` in every order, the random one with several seeds, and with no work run behind its back.
void SimulateAllOrders(const std::function<void()>& body) {
  for (const char* order : kOrders) {
    for (int seed = 1; seed <= (std::string(order) == "random" ? kSeeds : 1); ++seed) {
      Simulate({{"SIMCUDA_ORDER", order}, {"SIMCUDA_SEED", std::to_string(seed)}, {"SIMCUDA_PROGRESS_MS", "0"}}, body);
    }
  }
}

// In how many of the random seeds `body` had failures.
int FailingSeeds(const std::function<void()>& body) {
  int failing = 0;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    const std::string text = std::to_string(seed);
    failing += RunSimulated({{"SIMCUDA_ORDER", "random"}, {"SIMCUDA_SEED", text}}, body) != 0 ? 1 : 0;
  }
  return failing;
}

uint32_t FirstWord(CUdeviceptr address) {
  uint32_t word = 0;
  EXPECT_CUDA(cuMemcpyDtoH(&word, address, sizeof word));
  return word;
}

// A producer in one stream, a consumer in another, and perhaps what orders them.
void ProduceAndConsume(bool wait) {
  UseDevice();
  const CUstream producer = MakeStream(), consumer = MakeStream();
  const CUevent made = MakeEvent();
  const CUdeviceptr source = Allocate(kWords * 4), target = Allocate(kWords * 4);
  auto* result = AllocatePinned<uint32_t>(kWords);
  EXPECT_CUDA(cuMemsetD32(source, 1, kWords));
  EXPECT_CUDA(cuCtxSynchronize());
  EXPECT_CUDA(Launch(producer, "simcuda_fill", source, uint64_t{kWords}, uint32_t{2}));
  EXPECT_CUDA(cuEventRecord(made, producer));
  if (wait) {
    EXPECT_CUDA(cuStreamWaitEvent(consumer, made, 0));
  }
  EXPECT_CUDA(Launch(consumer, "simcuda_copy", target, source, uint64_t{kWords * 4}));
  EXPECT_CUDA(cuMemcpyDtoHAsync(result, target, kWords * 4, consumer));
  EXPECT_CUDA(cuStreamSynchronize(consumer));
  if (result[0] != 2) std::_Exit(3);
}

TEST(OrderTest, AMissingEventWaitGivesWrongBytes) {
  const auto without = [] { ProduceAndConsume(false); };
  EXPECT_NE(RunSimulated({{"SIMCUDA_ORDER", "late"}}, without), 0);
  EXPECT_EQ(RunSimulated({{"SIMCUDA_ORDER", "eager"}}, without), 0);
  const int failing = FailingSeeds(without);
  EXPECT_GT(failing, 0);
  EXPECT_LT(failing, kSeeds);
}

TEST(OrderTest, WithTheEventWaitTheBytesAreRightInEveryOrder) {
  SimulateAllOrders([] { ProduceAndConsume(true); });
}

TEST(OrderTest, LateWorkRunsOnlyWhenWaitedFor) {
  Simulate({{"SIMCUDA_ORDER", "late"}, {"SIMCUDA_PROGRESS_MS", "0"}}, [] {
    UseDevice();
    const CUstream stream = MakeStream();
    const CUdeviceptr block = Allocate(4);
    auto* result = AllocatePinned<uint32_t>(1);
    *result = 1;
    EXPECT_CUDA(cuMemsetD32Async(block, 2, 1, stream));
    EXPECT_CUDA(cuMemcpyDtoHAsync(result, block, 4, stream));
    for (int i = 0; i < 100; ++i) FreeBytes();
    EXPECT_EQ(*result, 1u);
    EXPECT_EQ(simcuda_pending_work(), 2u);
    EXPECT_CUDA(cuStreamSynchronize(stream));
    EXPECT_EQ(*result, 2u);
    EXPECT_EQ(simcuda_pending_work(), 0u);
  });
}

TEST(OrderTest, WaitingForOneStreamLeavesOthersAlone) {
  Simulate({{"SIMCUDA_ORDER", "late"}, {"SIMCUDA_PROGRESS_MS", "0"}}, [] {
    UseDevice();
    const CUstream a = MakeStream(), b = MakeStream();
    auto* results = AllocatePinned<uint32_t>(2);
    results[0] = results[1] = 0;
    const CUdeviceptr block = Allocate(8);
    EXPECT_CUDA(cuMemsetD32Async(block, 5, 2, a));
    EXPECT_CUDA(cuStreamSynchronize(a));
    EXPECT_CUDA(cuMemcpyDtoHAsync(&results[0], block, 4, a));
    EXPECT_CUDA(cuMemcpyDtoHAsync(&results[1], block, 4, b));
    EXPECT_CUDA(cuStreamSynchronize(b));
    EXPECT_EQ(results[0], 0u);
    EXPECT_EQ(results[1], 5u);
    EXPECT_CUDA(cuCtxSynchronize());
    EXPECT_EQ(results[0], 5u);
  });
}

TEST(OrderTest, LegacyStreamInterlocksWithBlockingStreams) {
  SimulateAllOrders([] {
    UseDevice();
    const CUstream blocking = MakeStream(CU_STREAM_DEFAULT);
    const CUdeviceptr block = Allocate(kWords * 4), copy = Allocate(kWords * 4);
    // blocking, then legacy
    EXPECT_CUDA(Launch(blocking, "simcuda_fill", block, uint64_t{kWords}, uint32_t{3}));
    EXPECT_EQ(FirstWord(block), 3u);
    // legacy, then blocking
    EXPECT_CUDA(Launch(nullptr, "simcuda_fill", block, uint64_t{kWords}, uint32_t{4}));
    EXPECT_CUDA(Launch(blocking, "simcuda_copy", copy, block, uint64_t{kWords * 4}));
    EXPECT_CUDA(cuStreamSynchronize(blocking));
    EXPECT_EQ(FirstWord(copy), 4u);
    // one blocking stream is ordered with another only through the legacy one
    const CUstream other = MakeStream(CU_STREAM_DEFAULT);
    EXPECT_CUDA(Launch(blocking, "simcuda_fill", block, uint64_t{kWords}, uint32_t{5}));
    EXPECT_CUDA(Launch(nullptr, "nothing"));
    EXPECT_CUDA(Launch(other, "simcuda_copy", copy, block, uint64_t{kWords * 4}));
    EXPECT_EQ(FirstWord(copy), 5u);
  });
}

TEST(OrderTest, NonBlockingStreamsDoNotInterlock) {
  Simulate({{"SIMCUDA_ORDER", "late"}, {"SIMCUDA_PROGRESS_MS", "0"}}, [] {
    UseDevice();
    const CUstream stream = MakeStream(CU_STREAM_NON_BLOCKING);
    const CUdeviceptr block = Allocate(kWords * 4);
    EXPECT_CUDA(cuMemsetD32(block, 1, kWords));
    EXPECT_CUDA(cuCtxSynchronize());
    EXPECT_CUDA(Launch(stream, "simcuda_fill", block, uint64_t{kWords}, uint32_t{3}));
    EXPECT_EQ(FirstWord(block), 1u);
    EXPECT_CUDA(cuStreamSynchronize(nullptr));
    EXPECT_EQ(FirstWord(block), 1u);
    EXPECT_CUDA(cuStreamSynchronize(stream));
    EXPECT_EQ(FirstWord(block), 3u);
  });
}

TEST(OrderTest, PerThreadStreamsAreSeparateAndInterlockWithTheLegacyOne) {
  Simulate({{"SIMCUDA_ORDER", "late"}, {"SIMCUDA_PROGRESS_MS", "0"}}, [] {
    const CUcontext context = UseDevice();
    const CUdeviceptr block = Allocate(kWords * 4);
    auto* result = AllocatePinned<uint32_t>(1);
    EXPECT_CUDA(cuMemsetD32(block, 1, kWords));
    EXPECT_CUDA(cuCtxSynchronize());
    EXPECT_CUDA(Launch(CU_STREAM_PER_THREAD, "simcuda_fill", block, uint64_t{kWords}, uint32_t{2}));
    std::thread([&] {
      EXPECT_CUDA(cuCtxSetCurrent(context));
      unsigned long long mine = 0;
      EXPECT_CUDA(cuStreamGetId(CU_STREAM_PER_THREAD, &mine));
      EXPECT_CUDA(cuMemcpyDtoHAsync(result, block, 4, CU_STREAM_PER_THREAD));
      EXPECT_CUDA(cuStreamSynchronize(CU_STREAM_PER_THREAD));
      EXPECT_EQ(*result, 1u);  // the other thread's fill is not waited for
    }).join();
    EXPECT_EQ(FirstWord(block), 2u);  // an action in the legacy stream waits for it
  });
}

TEST(OrderTest, PageableSourcesAreReadDuringTheCallPinnedOnesLater) {
  Simulate({{"SIMCUDA_ORDER", "late"}, {"SIMCUDA_PROGRESS_MS", "0"}}, [] {
    UseDevice();
    const CUstream stream = MakeStream();
    const CUdeviceptr block = Allocate(8);
    uint32_t pageable = 1;
    auto* pinned = AllocatePinned<uint32_t>(1);
    *pinned = 1;
    EXPECT_CUDA(cuMemcpyHtoDAsync(block, &pageable, 4, stream));
    EXPECT_CUDA(cuMemcpyHtoDAsync(block + 4, pinned, 4, stream));
    pageable = *pinned = 2;
    EXPECT_CUDA(cuStreamSynchronize(stream));
    EXPECT_EQ(FirstWord(block), 1u);
    EXPECT_EQ(FirstWord(block + 4), 2u);
    // Back to pageable memory: complete on return.
    EXPECT_CUDA(cuMemsetD32Async(block, 9, 1, stream));
    EXPECT_CUDA(cuMemcpyDtoHAsync(&pageable, block, 4, stream));
    EXPECT_EQ(pageable, 9u);
  });
}

TEST(OrderTest, SynchronousPageableUploadArrivesInStreamOrderOnly) {
  Simulate({{"SIMCUDA_ORDER", "late"}, {"SIMCUDA_PROGRESS_MS", "0"}}, [] {
    UseDevice();
    const CUstream stream = MakeStream();
    const CUdeviceptr block = Allocate(4);
    auto* result = AllocatePinned<uint32_t>(1);
    const uint32_t one = 1, two = 2;
    EXPECT_CUDA(cuMemcpyHtoD(block, &one, 4));
    EXPECT_CUDA(cuCtxSynchronize());
    EXPECT_CUDA(cuMemcpyHtoD(block, &two, 4));
    // "The DMA to final destination may not have completed": a non-blocking stream is not ordered with it.
    EXPECT_CUDA(cuMemcpyDtoHAsync(result, block, 4, stream));
    EXPECT_CUDA(cuStreamSynchronize(stream));
    EXPECT_EQ(*result, 1u);
    EXPECT_EQ(FirstWord(block), 2u);
  });
}

TEST(OrderTest, PollingEnds) {
  SimulateAllOrders([] {
    UseDevice();
    const CUstream stream = MakeStream();
    const CUevent event = MakeEvent();
    const CUdeviceptr block = Allocate(4);
    EXPECT_CUDA(cuStreamQuery(stream));
    EXPECT_CUDA(cuEventQuery(event));  // never recorded
    EXPECT_CUDA(cuMemsetD32Async(block, 1, 1, stream));
    EXPECT_CUDA(cuEventRecord(event, stream));
    int asked = 0;
    CUresult answer = CUDA_ERROR_NOT_READY;
    for (; answer == CUDA_ERROR_NOT_READY && asked < 1000; ++asked) answer = cuEventQuery(event);
    EXPECT_CUDA(answer);
    EXPECT_LT(asked, 1000);
    EXPECT_CUDA(cuMemsetD32Async(block, 1, 1, stream));
    for (answer = CUDA_ERROR_NOT_READY; answer == CUDA_ERROR_NOT_READY;) answer = cuStreamQuery(stream);
    EXPECT_CUDA(answer);
  });
}

TEST(OrderTest, ALateQueryIsNotReadyFirst) {
  Simulate({{"SIMCUDA_ORDER", "late"}, {"SIMCUDA_PROGRESS_MS", "0"}}, [] {
    UseDevice();
    const CUstream stream = MakeStream();
    EXPECT_CUDA(cuMemsetD32Async(Allocate(4), 1, 1, stream));
    EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  });
}

struct Ordered {
  std::atomic<int> next{0};
  int seen[3] = {-1, -1, -1};
};
struct Note {
  Ordered* ordered;
  int index;
};

TEST(OrderTest, HostFunctionsRunInStreamOrderAndMayNotCallCuda) {
  SimulateAllOrders([] {
    UseDevice();
    static Ordered ordered;
    static Note notes[3];
    static std::atomic<int> inner{-1};
    const CUstream stream = MakeStream();
    for (int i = 0; i < 3; ++i) {
      notes[i] = {&ordered, i};
      EXPECT_CUDA(cuLaunchHostFunc(
          stream,
          [](void* data) {
            auto* note = static_cast<Note*>(data);
            note->ordered->seen[note->index] = note->ordered->next++;
            size_t free = 0, total = 0;
            inner = cuMemGetInfo(&free, &total);
          },
          &notes[i]));
    }
    EXPECT_CUDA(cuStreamSynchronize(stream));
    for (int i = 0; i < 3; ++i) EXPECT_EQ(ordered.seen[i], i);
    EXPECT_EQ(inner, CUDA_ERROR_NOT_PERMITTED);
  });
}

TEST(OrderTest, CallbacksGetTheirStreamAndStatus) {
  SimulateAllOrders([] {
    UseDevice();
    static CUstream seen = nullptr;
    static CUresult status = CUDA_ERROR_UNKNOWN;
    const CUstream stream = MakeStream();
    EXPECT_CUDA(cuStreamAddCallback(
        stream,
        [](CUstream which, CUresult result, void*) {
          seen = which;
          status = result;
        },
        nullptr, 0));
    EXPECT_CUDA(cuStreamSynchronize(stream));
    EXPECT_EQ(seen, stream);
    EXPECT_CUDA(status);
  });
}

TEST(OrderTest, WorkProgressesWithoutCalls) {
  for (const char* order : kOrders) {
    Simulate({{"SIMCUDA_ORDER", order}, {"SIMCUDA_PROGRESS_MS", "20"}}, [] {
      UseDevice();
      static std::atomic<bool> called{false};
      const CUstream stream = MakeStream();
      const CUdeviceptr block = Allocate(4);
      EXPECT_CUDA(cuMemsetD32Async(block, 1, 1, stream));
      EXPECT_CUDA(cuLaunchHostFunc(stream, [](void*) { called = true; }, nullptr));
      for (int i = 0; i < 10000 && !called; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      EXPECT_TRUE(called);
    });
  }
}

TEST(OrderTest, FreeWaitsForWorkNobodySees) {
  for (const char* order : kOrders) {
    Simulate({{"SIMCUDA_ORDER", order}}, [] {
      UseDevice();
      static std::atomic<bool> released{false};
      static std::atomic<bool> ran{false};
      const CUstream stream = MakeStream();
      const CUdeviceptr block = Allocate(4 << 20);
      EXPECT_CUDA(simcuda_launch_hidden(
          stream,
          [](const SimcudaLaunch*) {
            if (!released) return 1;
            ran = true;
            return 0;
          },
          nullptr));
      std::thread releaser([] {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        released = true;
      });
      EXPECT_CUDA(cuMemFree(block));
      EXPECT_TRUE(ran);
      releaser.join();
    });
  }
}

TEST(OrderTest, WithoutTheBarrierLateWorkHitsFreedMemory) {
  Simulate({{"SIMCUDA_FREE_SYNC", "0"}, {"SIMCUDA_PROGRESS_MS", "0"}}, [] {
    UseDevice();
    const CUstream stream = MakeStream();
    const CUdeviceptr block = Allocate(4 << 20);
    EXPECT_CUDA(Launch(stream, "simcuda_fill", block, uint64_t{kWords}, uint32_t{3}));
    EXPECT_CUDA(cuMemFree(block));
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    // The context keeps it.
    CUdeviceptr other = 0;
    EXPECT_EQ(cuMemAlloc(&other, 1), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  });
}

TEST(OrderTest, WithoutTheBarrierAReusedBlockIsOverwritten) {
  Simulate({{"SIMCUDA_FREE_SYNC", "0"}, {"SIMCUDA_PROGRESS_MS", "0"}}, [] {
    UseDevice();
    const CUstream stream = MakeStream();
    const CUdeviceptr first = Allocate(4 << 20);
    EXPECT_CUDA(Launch(stream, "simcuda_fill", first, uint64_t{kWords}, uint32_t{3}));
    EXPECT_CUDA(cuMemFree(first));
    const CUdeviceptr second = Allocate(4 << 20);
    EXPECT_EQ(second, first);
    EXPECT_CUDA(cuMemsetD32(second, 7, kWords));
    EXPECT_EQ(FirstWord(second), 7u);
    EXPECT_CUDA(cuStreamSynchronize(stream));
    EXPECT_EQ(FirstWord(second), 3u);
  });
}

TEST(OrderTest, SpinningKernelHoldsItsStreamUntilTheHostWrites) {
  for (const char* order : kOrders) {
    Simulate({{"SIMCUDA_ORDER", order}}, [] {
      UseDevice();
      auto* flag = AllocatePinned<std::atomic<uint32_t>>(1);
      auto* result = AllocatePinned<uint32_t>(1);
      *result = 0;
      const CUstream stream = MakeStream();
      const CUdeviceptr block = Allocate(4);
      EXPECT_CUDA(Launch(stream, "simcuda_spin", reinterpret_cast<CUdeviceptr>(flag), uint32_t{42}));
      EXPECT_CUDA(cuMemsetD32Async(block, 8, 1, stream));
      EXPECT_CUDA(cuMemcpyDtoHAsync(result, block, 4, stream));
      for (int i = 0; i < 50; ++i) EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
      EXPECT_EQ(*result, 0u);
      std::thread writer([flag] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        *flag = 42;
      });
      EXPECT_CUDA(cuStreamSynchronize(stream));
      EXPECT_EQ(*result, 8u);
      writer.join();
    });
  }
}

TEST(OrderTest, DestroyedStreamsFinishTheirWork) {
  SimulateAllOrders([] {
    UseDevice();
    const CUdeviceptr block = Allocate(4);
    const CUstream stream = MakeStream();
    EXPECT_CUDA(cuMemsetD32Async(block, 6, 1, stream));
    EXPECT_CUDA(cuStreamDestroy(stream));
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_CUDA(cuCtxSynchronize());
    EXPECT_EQ(FirstWord(block), 6u);
  });
}

TEST(OrderTest, StreamHandlesAreRecycledButIdsAreNot) {
  Simulate({}, [] {
    UseDevice();
    unsigned long long first = 0, second = 0;
    const CUstream a = MakeStream();
    EXPECT_CUDA(cuStreamGetId(a, &first));
    EXPECT_CUDA(cuStreamDestroy(a));
    const CUstream b = MakeStream();
    EXPECT_CUDA(cuStreamGetId(b, &second));
    EXPECT_EQ(a, b);
    EXPECT_NE(first, second);
  });
}

TEST(OrderTest, ElapsedTimeIsOnTheSimulatedClock) {
  std::string last;
  for (const char* order : kOrders) {
    Simulate({{"SIMCUDA_ORDER", order}}, [] {
      UseDevice();
      const CUstream stream = MakeStream();
      const CUevent start = MakeEvent(CU_EVENT_DEFAULT), end = MakeEvent(CU_EVENT_DEFAULT), untimed = MakeEvent();
      float milliseconds = -1;
      EXPECT_EQ(cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_INVALID_HANDLE);
      EXPECT_CUDA(cuEventRecord(start, stream));
      for (int i = 0; i < 10; ++i) EXPECT_CUDA(Launch(stream, "nothing"));
      EXPECT_CUDA(cuEventRecord(end, stream));
      EXPECT_CUDA(cuEventRecord(untimed, stream));
      EXPECT_CUDA(cuEventSynchronize(end));
      EXPECT_CUDA(cuEventElapsedTime(&milliseconds, start, end));
      EXPECT_FLOAT_EQ(milliseconds, 0.02f);
      EXPECT_EQ(cuEventElapsedTime(&milliseconds, start, untimed), CUDA_ERROR_INVALID_HANDLE);
    });
  }
}

TEST(OrderTest, EventsBelongToTheirContext) {
  Simulate({}, [] {
    UseDevice();
    const CUevent event = MakeEvent();
    CUcontext other = nullptr;
    ASSERT_CUDA(cuCtxCreate(&other, nullptr, 0, 0));
    const CUstream stream = MakeStream();
    EXPECT_EQ(cuEventRecord(event, stream), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_CUDA(cuStreamWaitEvent(stream, event, 0));
    EXPECT_CUDA(cuEventDestroy(event));
    EXPECT_EQ(cuEventDestroy(event), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuEventRecord(event, stream), CUDA_ERROR_INVALID_HANDLE);
  });
}

TEST(OrderTest, LongQueuesStayBounded) {
  Simulate({{"SIMCUDA_ORDER", "late"}, {"SIMCUDA_PROGRESS_MS", "0"}}, [] {
    UseDevice();
    const CUstream stream = MakeStream();
    for (int i = 0; i < 5000; ++i) EXPECT_CUDA(Launch(stream, "nothing"));
    EXPECT_LE(simcuda_pending_work(), 1025u);
    EXPECT_CUDA(cuStreamSynchronize(stream));
    EXPECT_EQ(simcuda_pending_work(), 0u);
  });
}

}  // namespace
}  // namespace cuheap::testing
