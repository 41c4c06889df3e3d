// Device memory and events of one process used by another (Driver API reference 6.13, cuIpc*).
#include <chrono>
#include <cstring>
#include <vector>

#include "tests/tools/simcuda/two_processes.h"

namespace cuheap::testing {
namespace {

constexpr size_t kPage = size_t{2} << 20;
constexpr unsigned kLazy = CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS;

CUipcMemHandle HandleOf(CUdeviceptr address) {
  CUipcMemHandle handle{};
  EXPECT_CUDA(cuIpcGetMemHandle(&handle, address));
  return handle;
}

CUdeviceptr OpenMemory(const CUipcMemHandle& handle) {
  CUdeviceptr address = 0;
  EXPECT_CUDA(cuIpcOpenMemHandle(&address, handle, kLazy));
  return address;
}

CUresult OpenResult(const CUipcMemHandle& handle) {
  CUdeviceptr address = 0;
  return cuIpcOpenMemHandle(&address, handle, kLazy);
}

// Complete on return, unlike a copy from pageable memory alone.
void Write(CUdeviceptr to, uint32_t word) {
  EXPECT_CUDA(cuMemcpyHtoD(to, &word, sizeof word));
  EXPECT_CUDA(cuCtxSynchronize());
}

uint32_t Read(CUdeviceptr from) {
  uint32_t word = 0;
  EXPECT_CUDA(cuMemcpyDtoH(&word, from, sizeof word));
  return word;
}

bool Equal(const CUipcMemHandle& a, const CUipcMemHandle& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

TEST(IpcMemoryTest, BytesGoBothWays) {
  SimulateTwo(
      {},
      [](Line& line) {
        UseDevice();
        const CUdeviceptr memory = Allocate(5 * kPage + 100);
        Write(memory, 11);
        Write(memory + 5 * kPage, 12);
        line.Send(HandleOf(memory));
        Write(memory + 8, 13);  // after the export
        line.Meet();
        line.Meet();
        EXPECT_EQ(Read(memory + 4), 21u);
        EXPECT_EQ(Read(memory), 11u);
        // A memset that drops whole pages reaches the other side too.
        EXPECT_CUDA(cuMemsetD8(memory, 0, 2 * kPage));
        EXPECT_CUDA(cuCtxSynchronize());
        line.Meet();
        line.Meet();
        EXPECT_CUDA(cuMemFree(memory));
      },
      [](Line& line) {
        UseDevice();
        const size_t before = FreeBytes();
        const CUdeviceptr memory = OpenMemory(line.Receive<CUipcMemHandle>());
        line.Meet();
        EXPECT_EQ(Read(memory), 11u);
        EXPECT_EQ(Read(memory + 5 * kPage), 12u);
        EXPECT_EQ(Read(memory + 8), 13u);
        CUdeviceptr base = 0;
        size_t size = 0;
        EXPECT_CUDA(cuMemGetAddressRange(&base, &size, memory + 70));
        EXPECT_EQ(base, memory);
        EXPECT_EQ(size, 5 * kPage + 100);
        EXPECT_EQ(FreeBytes(), before);  // it is the other process's memory
        Write(memory + 4, 21);
        line.Meet();
        line.Meet();
        EXPECT_EQ(Read(memory + 4), 0u);
        EXPECT_EQ(cuMemFree(memory), CUDA_ERROR_INVALID_VALUE);  // "must be freed with cuIpcCloseMemHandle"
        EXPECT_EQ(cuIpcCloseMemHandle(memory + 4), CUDA_ERROR_INVALID_VALUE);
        EXPECT_CUDA(cuIpcCloseMemHandle(memory));
        EXPECT_EQ(cuIpcCloseMemHandle(memory), CUDA_ERROR_INVALID_VALUE);
        uint32_t word = 0;
        EXPECT_EQ(cuMemcpyDtoH(&word, memory, 4), CUDA_ERROR_INVALID_VALUE);
        line.Meet();
      });
}

TEST(IpcMemoryTest, AHandleNamesTheBlockAndItsNeighboursComeAlong) {
  SimulateTwo(
      {},
      [](Line& line) {
        UseDevice();
        const CUdeviceptr first = Allocate(700), second = Allocate(100);
        ASSERT_EQ(second, first + 1024);
        Write(first, 1);
        Write(second, 2);
        EXPECT_TRUE(Equal(HandleOf(second), HandleOf(second + 40)));
        EXPECT_TRUE(Equal(HandleOf(second), HandleOf(second)));
        EXPECT_FALSE(Equal(HandleOf(second), HandleOf(first)));
        line.Send(HandleOf(second));
        line.Send(HandleOf(first));
        line.Meet();
        EXPECT_EQ(Read(second), 3u);
      },
      [](Line& line) {
        UseDevice();
        const CUdeviceptr second = OpenMemory(line.Receive<CUipcMemHandle>());
        const CUdeviceptr first = OpenMemory(line.Receive<CUipcMemHandle>());
        EXPECT_EQ(second, first + 1024);
        EXPECT_EQ(Read(first), 1u);
        EXPECT_EQ(Read(second), 2u);
        EXPECT_CUDA(cuIpcCloseMemHandle(first));
        Write(second, 3);
        EXPECT_CUDA(cuCtxSynchronize());
        line.Meet();
      });
}

TEST(IpcMemoryTest, OpeningTwiceCounts) {
  SimulateTwo(
      {},
      [](Line& line) {
        UseDevice();
        const CUdeviceptr memory = Allocate(kPage);
        Write(memory, 5);
        line.Send(HandleOf(memory));
        line.Meet();
      },
      [](Line& line) {
        UseDevice();
        const auto handle = line.Receive<CUipcMemHandle>();
        const CUdeviceptr memory = OpenMemory(handle);
        EXPECT_EQ(OpenMemory(handle), memory);
        EXPECT_CUDA(cuIpcCloseMemHandle(memory));
        EXPECT_EQ(Read(memory), 5u);
        EXPECT_CUDA(cuIpcCloseMemHandle(memory));
        EXPECT_EQ(cuIpcCloseMemHandle(memory), CUDA_ERROR_INVALID_VALUE);
        // "May only be opened by one CUcontext per CUdevice per other process."
        EXPECT_EQ(OpenMemory(handle), memory);
        CUcontext other = nullptr;
        EXPECT_CUDA(cuCtxCreate(&other, nullptr, 0, 0));
        EXPECT_EQ(OpenResult(handle), CUDA_ERROR_INVALID_CONTEXT);
        EXPECT_CUDA(cuCtxDestroy(other));
        line.Meet();
      });
}

TEST(IpcMemoryTest, WhatIsRefused) {
  Simulate({}, [] {
    UseDevice();
    const CUdeviceptr memory = Allocate(kPage);
    CUdeviceptr opened = 0, managed = 0, stream_ordered = 0;
    CUipcMemHandle handle = HandleOf(memory);
    EXPECT_EQ(cuIpcOpenMemHandle(&opened, handle, kLazy), CUDA_ERROR_INVALID_CONTEXT);  // in the process that made it
    EXPECT_EQ(cuIpcOpenMemHandle(&opened, handle, 0), CUDA_ERROR_INVALID_VALUE);        // "must be specified as"
    EXPECT_EQ(cuIpcOpenMemHandle(&opened, CUipcMemHandle{}, kLazy), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuIpcGetMemHandle(nullptr, memory), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CUDA(cuMemAllocManaged(&managed, kPage, CU_MEM_ATTACH_GLOBAL));
    EXPECT_CUDA(cuMemAllocAsync(&stream_ordered, kPage, nullptr));
    for (const CUdeviceptr refused : {managed, stream_ordered, reinterpret_cast<CUdeviceptr>(&opened)}) {
      EXPECT_EQ(cuIpcGetMemHandle(&handle, refused), CUDA_ERROR_INVALID_VALUE);
    }
    int capable = -1;
    EXPECT_CUDA(cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, memory));
    EXPECT_EQ(capable, 1);
    EXPECT_CUDA(cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, stream_ordered));
    EXPECT_EQ(capable, 0);
  });
}

TEST(IpcMemoryTest, AnOldHandleOpensNothing) {
  SimulateTwo(
      {},
      [](Line& line) {
        UseDevice();
        const CUdeviceptr neighbour = Allocate(100);
        for (const size_t bytes : {kPage, size_t{100}}) {
          const CUdeviceptr memory = Allocate(bytes);
          const CUipcMemHandle old_handle = HandleOf(memory);
          Write(memory, 77);
          EXPECT_CUDA(cuMemFree(memory));
          const CUdeviceptr again = Allocate(bytes);
          EXPECT_EQ(again, memory);
          line.Send(old_handle);
          line.Meet();
          EXPECT_FALSE(Equal(HandleOf(again), old_handle));  // "a unique handle for the new memory"
          line.Send(old_handle);
          line.Meet();
          if (bytes == kPage) {
            EXPECT_EQ(Read(again), 0u);  // nothing of the old file is left at the address
          }
        }
        EXPECT_CUDA(cuMemFree(neighbour));
      },
      [](Line& line) {
        UseDevice();
        for (int i = 0; i < 4; ++i) {
          EXPECT_EQ(OpenResult(line.Receive<CUipcMemHandle>()), CUDA_ERROR_INVALID_HANDLE);
          line.Meet();
        }
      });
}

TEST(IpcMemoryTest, ABlockInASharedPageIsFilledWithZerosAnew) {
  Simulate({{"SIMCUDA_FILL", "0"}}, [] {
    UseDevice();
    constexpr size_t kMiB = size_t{1} << 20;
    const CUdeviceptr neighbour = Allocate(kMiB), memory = Allocate(kMiB);
    HandleOf(neighbour);
    EXPECT_CUDA(cuMemsetD8(memory, 7, kMiB));
    EXPECT_CUDA(cuMemFree(memory));
    EXPECT_EQ(Allocate(kMiB), memory);
    EXPECT_EQ(Read(memory), 0u);
    EXPECT_EQ(Read(memory + kMiB / 2), 0u);
  });
}

TEST(IpcEventTest, TheWholeContextRecordsAndWaits) {
  SimulateTwo(
      {{"SIMCUDA_PROGRESS_MS", "0"}},
      [](Line& line) {
        CUcontext context = UseDevice();
        const CUdeviceptr memory = Allocate(kPage);
        CUevent event = nullptr;
        CUipcEventHandle handle{};
        EXPECT_CUDA(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
        EXPECT_CUDA(cuIpcGetEventHandle(&handle, event));
        EXPECT_CUDA(cuMemsetD32Async(memory, 5, 16, MakeStream()));
        EXPECT_CUDA(cuCtxRecordEvent(context, event));
        line.Send(HandleOf(memory));
        line.Send(handle);
        line.Meet();
      },
      [](Line& line) {
        CUcontext context = UseDevice();
        const CUdeviceptr memory = OpenMemory(line.Receive<CUipcMemHandle>());
        CUevent event = nullptr;
        EXPECT_CUDA(cuIpcOpenEventHandle(&event, line.Receive<CUipcEventHandle>()));
        CUstream stream = MakeStream();
        uint32_t* result = AllocatePinned<uint32_t>(1);
        EXPECT_CUDA(cuCtxWaitEvent(context, event));
        EXPECT_CUDA(cuMemcpyDtoHAsync(result, memory, 4, stream));
        EXPECT_CUDA(cuStreamSynchronize(stream));
        EXPECT_EQ(*result, 5u);
        line.Meet();
      });
}

TEST(IpcMemoryTest, TheImporterKeepsWhatItOpened) {
  SimulateTwo(
      {},
      [](Line& line) {
        UseDevice();
        const CUdeviceptr memory = Allocate(kPage);
        Write(memory, 9);
        line.Send(HandleOf(memory));
        line.Meet();
        EXPECT_CUDA(cuMemFree(memory));
        const CUdeviceptr again = Allocate(kPage);
        EXPECT_EQ(again, memory);
        Write(again, 10);
        EXPECT_CUDA(cuCtxSynchronize());
        line.Meet();
      },
      [](Line& line) {
        UseDevice();
        const auto handle = line.Receive<CUipcMemHandle>();
        const CUdeviceptr memory = OpenMemory(handle);
        line.Meet();
        line.Meet();
        EXPECT_EQ(Read(memory), 9u);  // never the new owner's bytes
        EXPECT_CUDA(cuIpcCloseMemHandle(memory));
        EXPECT_EQ(OpenResult(handle), CUDA_ERROR_INVALID_HANDLE);
      });
}

TEST(IpcMemoryTest, TheContextsEndCloses) {
  SimulateTwo(
      {},
      [](Line& line) {
        UseDevice();
        const CUdeviceptr memory = Allocate(kPage);
        Write(memory, 4);
        line.Send(HandleOf(memory));
        line.Meet();
        EXPECT_EQ(Read(memory), 4u);
      },
      [](Line& line) {
        CUcontext context = UseDevice();
        const auto handle = line.Receive<CUipcMemHandle>();
        const CUdeviceptr memory = OpenMemory(handle);
        EXPECT_CUDA(cuDevicePrimaryCtxReset(0));
        EXPECT_CUDA(cuDevicePrimaryCtxRetain(&context, 0));
        EXPECT_CUDA(cuCtxSetCurrent(context));
        EXPECT_EQ(cuIpcCloseMemHandle(memory), CUDA_ERROR_INVALID_VALUE);
        EXPECT_EQ(Read(OpenMemory(handle)), 4u);
        line.Meet();
      });
}

TEST(IpcMemoryTest, LargeUntouchedMemoryStaysUntouched) {
  Simulate({{"SIMCUDA_MODEL", "a100-80g"}}, [] {
    UseDevice();
    const CUdeviceptr memory = Allocate(size_t{70} << 30);
    Write(memory + (size_t{69} << 30), 3);
    const auto start = std::chrono::steady_clock::now();
    HandleOf(memory);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
    EXPECT_EQ(Read(memory + (size_t{69} << 30)), 3u);
    EXPECT_EQ(Read(memory), 0u);
    EXPECT_CUDA(cuMemFree(memory));
  });
}

CUipcEventHandle HandleOf(CUevent event) {
  CUipcEventHandle handle{};
  EXPECT_CUDA(cuIpcGetEventHandle(&handle, event));
  return handle;
}

CUevent OpenEvent(const CUipcEventHandle& handle) {
  CUevent event = nullptr;
  EXPECT_CUDA(cuIpcOpenEventHandle(&event, handle));
  return event;
}

CUevent MakeSharedEvent() { return MakeEvent(CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING); }

// The importer's stream waits for what the exporter queued, with no wait of the exporter's own.
void ExpectWorkIsAwaited(const Environment& environment, bool in_stream) {
  SimulateTwo(
      environment,
      [](Line& line) {
        UseDevice();
        const CUdeviceptr memory = Allocate(kPage);
        CUstream stream = MakeStream();
        CUevent event = MakeSharedEvent();
        line.Send(HandleOf(memory));
        line.Send(HandleOf(event));
        EXPECT_CUDA(cuMemsetD32Async(memory, 5, 16, stream));
        EXPECT_CUDA(cuEventRecord(event, stream));
        line.Meet();
        line.Meet();
        EXPECT_CUDA(cuEventSynchronize(event));  // now the importer's record
        EXPECT_EQ(Read(memory), 6u);
        line.Meet();
      },
      [in_stream](Line& line) {
        UseDevice();
        const CUdeviceptr memory = OpenMemory(line.Receive<CUipcMemHandle>());
        CUevent event = OpenEvent(line.Receive<CUipcEventHandle>());
        CUstream stream = MakeStream();
        uint32_t* result = AllocatePinned<uint32_t>(1);
        line.Meet();
        if (in_stream) {
          EXPECT_CUDA(cuStreamWaitEvent(stream, event, 0));
        } else {
          EXPECT_CUDA(cuEventSynchronize(event));
          EXPECT_CUDA(cuEventQuery(event));
        }
        EXPECT_CUDA(cuMemcpyDtoHAsync(result, memory, 4, stream));
        EXPECT_CUDA(cuStreamSynchronize(stream));
        EXPECT_EQ(*result, 5u);
        EXPECT_CUDA(cuMemsetD32Async(memory, 6, 1, stream));
        EXPECT_CUDA(cuEventRecord(event, stream));
        line.Meet();
        line.Meet();
        EXPECT_CUDA(cuEventDestroy(event));
      });
}

TEST(IpcEventTest, OrdersTheWorkOfTwoProcesses) {
  for (const char* order : {"late", "random", "eager"}) {
    ExpectWorkIsAwaited({{"SIMCUDA_ORDER", order}, {"SIMCUDA_PROGRESS_MS", "0"}}, true);
    ExpectWorkIsAwaited({{"SIMCUDA_ORDER", order}, {"SIMCUDA_PROGRESS_MS", "0"}}, false);
  }
}

TEST(IpcEventTest, AQueryAnswersBothStates) {
  SimulateTwo(
      {{"SIMCUDA_PROGRESS_MS", "0"}},
      [](Line& line) {
        UseDevice();
        CUevent event = MakeSharedEvent();
        line.Send(HandleOf(event));
        line.Meet();
        auto* flag = AllocatePinned<uint32_t>(1);
        *flag = 0;
        CUstream stream = MakeStream();
        EXPECT_CUDA(Launch(stream, "simcuda_spin", reinterpret_cast<CUdeviceptr>(flag), uint32_t{1}));
        EXPECT_CUDA(cuEventRecord(event, stream));
        line.Meet();
        line.Meet();
        *flag = 1;
        line.Meet();
        line.Meet();
      },
      [](Line& line) {
        UseDevice();
        CUevent event = OpenEvent(line.Receive<CUipcEventHandle>());
        EXPECT_CUDA(cuEventQuery(event));  // never recorded
        line.Meet();
        line.Meet();
        for (int i = 0; i < 20; ++i) EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
        line.Meet();
        line.Meet();
        CUresult result = CUDA_ERROR_NOT_READY;
        while (result == CUDA_ERROR_NOT_READY) result = cuEventQuery(event);
        EXPECT_CUDA(result);
        line.Meet();
      });
}

TEST(IpcEventTest, TheEndOfAProcessEndsItsWork) {
  SimulateTwo(
      {{"SIMCUDA_PROGRESS_MS", "0"}},
      [](Line& line) {
        UseDevice();
        CUevent event = MakeSharedEvent();
        auto* flag = AllocatePinned<uint32_t>(1);
        *flag = 0;
        EXPECT_CUDA(Launch(nullptr, "simcuda_spin", reinterpret_cast<CUdeviceptr>(flag), uint32_t{1}));
        EXPECT_CUDA(cuEventRecord(event, nullptr));
        line.Send(HandleOf(event));
        line.Meet();
      },
      [](Line& line) {
        UseDevice();
        CUevent event = OpenEvent(line.Receive<CUipcEventHandle>());
        line.Meet();
        EXPECT_CUDA(cuEventSynchronize(event));
      });
}

TEST(IpcEventTest, WhatIsRefused) {
  SimulateTwo(
      {},
      [](Line& line) {
        UseDevice();
        CUevent plain = MakeEvent(), event = MakeSharedEvent(), timed = nullptr;
        CUipcEventHandle handle{};
        EXPECT_EQ(cuEventCreate(&timed, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
        EXPECT_EQ(cuIpcGetEventHandle(&handle, plain), CUDA_ERROR_INVALID_HANDLE);
        EXPECT_EQ(cuIpcOpenEventHandle(&timed, HandleOf(event)), CUDA_ERROR_INVALID_CONTEXT);
        const CUipcEventHandle gone = HandleOf(event);
        EXPECT_CUDA(cuEventDestroy(event));
        MakeSharedEvent();  // takes the place of the one that is gone
        line.Send(gone);
        line.Meet();
      },
      [](Line& line) {
        UseDevice();
        CUevent event = nullptr;
        EXPECT_EQ(cuIpcOpenEventHandle(&event, line.Receive<CUipcEventHandle>()), CUDA_ERROR_INVALID_HANDLE);
        EXPECT_EQ(cuIpcOpenEventHandle(&event, CUipcEventHandle{}), CUDA_ERROR_INVALID_HANDLE);
        line.Meet();
      });
}

}  // namespace
}  // namespace cuheap::testing
