// Threads: many, small, ending in the middle, and allocating as they end.
#include <limits.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <exception>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/interpose/hazards/scenes.h"

namespace hazards {
namespace {

CUcontext g_context = nullptr;

void Enter() { Require(cuCtxSetCurrent(g_context) == CUDA_SUCCESS, "cuCtxSetCurrent"); }

// A stack of so many KiB has room for a call of ours wherever it has for the driver's.
int SmallStacks(const Arguments& arguments) {
  g_context = StartDevice();
  const std::size_t bytes = std::stoul(arguments.at(0)) * kKiB;
  std::vector<CUdeviceptr> blocks(4);
  for (CUdeviceptr& block : blocks) {
    RunInThread(bytes, [&block] {
      Enter();
      Require(cuMemAlloc(&block, 9000) == CUDA_SUCCESS, "cuMemAlloc");
      Require(cuMemsetD8(block, 7, 9000) == CUDA_SUCCESS, "cuMemsetD8");
      CUdeviceptr other = 0;
      Require(cuMemAlloc(&other, 3 * kMiB) == CUDA_SUCCESS && cuMemFree(other) == CUDA_SUCCESS, "large");
    });
  }
  Say("round trip", RoundTrip(9000));
  return 0;
}

// The first CUDA call of the process in a thread with a small stack.
int SmallFirst(const Arguments& arguments) {
  RunInThread(std::stoul(arguments.at(0)) * kKiB, [] {
    CUdevice device = 0;
    Require(cuInit(0) == CUDA_SUCCESS, "cuInit");
    Require(cuDeviceGet(&device, 0) == CUDA_SUCCESS, "cuDeviceGet");
    Require(cuDevicePrimaryCtxRetain(&g_context, device) == CUDA_SUCCESS, "cuDevicePrimaryCtxRetain");
    Enter();
    CUdeviceptr block = 0;
    Require(cuMemAlloc(&block, 9000) == CUDA_SUCCESS, "cuMemAlloc");
  });
  Enter();
  Say("round trip", RoundTrip(9000));
  return 0;
}

int Thousand(const Arguments&) {
  g_context = StartDevice();
  std::barrier arrived(1000);
  std::atomic<int> good = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 1000; ++i) {
    threads.emplace_back([&, i] {
      Enter();
      Free(Allocate(1000));
      arrived.arrive_and_wait();
      const CUdeviceptr block = Allocate(2000 + static_cast<std::size_t>(i) * 8);
      if (i % 2 == 0) Free(block);
      ++good;
    });
  }
  for (std::thread& thread : threads) thread.join();
  Say("threads", good);
  return 0;
}

struct AtThreadEnd {
  CUdeviceptr block = 0;
  ~AtThreadEnd() {
    if (block == 0) return;
    Say("free in destructor", cuMemFree(block));
    CUdeviceptr other = 0;
    Say("allocation in destructor", cuMemAlloc(&other, 40 * kKiB));
  }
};
thread_local AtThreadEnd t_at_end;

pthread_key_t g_key;
int g_rounds = 0;
void KeyDestructor(void* value) {
  Enter();  // the driver may have forgotten the thread's context by now
  CUdeviceptr other = 0;
  Say("allocation in key's destructor", cuMemAlloc(&other, 50 * kKiB));
  Say("free in key's destructor", cuMemFree(reinterpret_cast<CUdeviceptr>(value)));
  if (++g_rounds < PTHREAD_DESTRUCTOR_ITERATIONS) pthread_setspecific(g_key, reinterpret_cast<void*>(other));
}

// Destructors of thread-local objects and of keys, in every round that there is, allocate and free.
int TlsDestructors(const Arguments&) {
  g_context = StartDevice();
  Require(pthread_key_create(&g_key, KeyDestructor) == 0, "pthread_key_create");
  std::thread([] {
    Enter();
    t_at_end.block = Allocate(30 * kKiB);
    pthread_setspecific(g_key, reinterpret_cast<void*>(Allocate(60 * kKiB)));
  }).join();
  Say("round trip", RoundTrip(9000));
  return 0;
}

// The main thread leaves first; the last one fills the device again and again, so that what is freed must be waited for.
// The process ends with it, whoever helped meanwhile.
int MainLeaves(const Arguments&) {
  g_context = StartDevice();
  std::thread([] {
    Enter();
    for (const std::size_t bytes : {3 * kMiB, 8 * kMiB, 13 * kMiB}) {
      std::vector<CUdeviceptr> blocks;
      CUdeviceptr address = 0;
      while (cuMemAlloc(&address, bytes) == CUDA_SUCCESS) blocks.push_back(address);
      Say("blocks", static_cast<long long>(blocks.size()));
      for (const CUdeviceptr block : blocks) Free(block);
    }
    Say("at the end", 0);
  }).detach();
  pthread_exit(nullptr);
}

// A thread that is cancelled at a point of its own choice between calls, often.
int Cancel(const Arguments&) {
  g_context = StartDevice();
  for (int i = 0; i < 50; ++i) {
    std::atomic<bool> began = false;
    pthread_t thread;
    const auto main = [](void* argument) -> void* {
      Enter();
      for (;;) {
        Free(Allocate(3000));
        static_cast<std::atomic<bool>*>(argument)->store(true);
        pthread_testcancel();
      }
    };
    Require(pthread_create(&thread, nullptr, main, &began) == 0, "pthread_create");
    while (!began) usleep(100);
    pthread_cancel(thread);
    void* result = nullptr;
    pthread_join(thread, &result);
    Require(result == PTHREAD_CANCELED, "cancelled");
  }
  Say("round trip", RoundTrip(9000));
  return 0;
}

struct Leaves {
  ~Leaves() { Say("unwound", 1); }
};

// A thread that is cancelled while it waits for the device. Its destructors run.
int CancelInWait(const Arguments&) {
  g_context = StartDevice();
  Gate gate;
  gate.Block();
  pthread_t thread;
  const auto main = [](void* argument) -> void* {
    const Leaves leaves;
    Enter();
    Allocate(10 * kKiB);
    cuStreamSynchronize(static_cast<Gate*>(argument)->stream());
    pthread_testcancel();  // if waiting was no cancellation point
    return nullptr;
  };
  Require(pthread_create(&thread, nullptr, main, &gate) == 0, "pthread_create");
  usleep(100'000);
  pthread_cancel(thread);
  usleep(100'000);
  gate.Open();
  void* result = nullptr;
  pthread_join(thread, &result);
  Say("cancelled", result == PTHREAD_CANCELED);
  Say("waited", cuStreamSynchronize(gate.stream()));
  Say("round trip", RoundTrip(9000));
  return 0;
}

struct Block {
  explicit Block(std::size_t bytes) : address(Allocate(bytes)) {}
  ~Block() { Free(address); }
  CUdeviceptr address;
};

void Throws(int depth) {
  const Block block(1000 * (static_cast<std::size_t>(depth) + 1));
  if (depth == 0) throw std::runtime_error("deep down");
  Throws(depth - 1);
}

// Exceptions whose unwinding allocates and frees, in threads, and handed over between them.
int Exceptions(const Arguments&) {
  g_context = StartDevice();
  for (int i = 0; i < 20; ++i) {
    std::exception_ptr caught;
    std::thread([&caught] {
      Enter();
      try {
        Throws(10);
      } catch (...) {
        Allocate(1000);
        caught = std::current_exception();
      }
    }).join();
    try {
      std::rethrow_exception(caught);
    } catch (const std::exception& error) {
      Require(std::string(error.what()) == "deep down", "the exception");
    }
  }
  Say("round trip", RoundTrip(9000));
  return 0;
}

}  // namespace

Scenes ThreadScenes() {
  return {{"small_stacks", SmallStacks},       {"small_first", SmallFirst}, {"thousand", Thousand},
          {"tls_destructors", TlsDestructors}, {"main_leaves", MainLeaves}, {"cancel", Cancel},          {"cancel_in_wait", CancelInWait},
          {"exceptions", Exceptions}};
}

}  // namespace hazards
