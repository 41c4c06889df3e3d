// The runtime's calls for memory and events of other processes: each one is the driver's.
#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>

namespace {

constexpr std::size_t kBytes = std::size_t{4} << 20;

// Runs `body` in a child with its own runtime, at one end of a line.
pid_t Start(int socket, int other, const std::function<void(int)>& body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child != 0) return child;
  close(other);
  body(socket);
  std::exit(::testing::Test::HasFailure() ? 1 : 0);
}

void RunTwo(const std::function<void(int)>& first, const std::function<void(int)>& second) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const pid_t children[2] = {Start(ends[0], ends[1], first), Start(ends[1], ends[0], second)};
  close(ends[0]);
  close(ends[1]);
  for (const pid_t child : children) {
    int status = 1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
}

template <class Value>
void Send(int socket, const Value& value) {
  EXPECT_EQ(send(socket, &value, sizeof(value), MSG_NOSIGNAL), static_cast<ssize_t>(sizeof(value)));
}

template <class Value>
Value Receive(int socket) {
  Value value{};
  EXPECT_EQ(recv(socket, &value, sizeof(value), MSG_WAITALL), static_cast<ssize_t>(sizeof(value)));
  return value;
}

unsigned char FirstByte(const void* memory) {
  unsigned char byte = 0;
  EXPECT_EQ(cudaMemcpy(&byte, memory, 1, cudaMemcpyDeviceToHost), cudaSuccess);
  return byte;
}

TEST(SharingTest, MemoryAndEvents) {
  RunTwo(
      [](int line) {
        void* memory = nullptr;
        cudaEvent_t event = nullptr;
        cudaIpcMemHandle_t handle;
        cudaIpcEventHandle_t event_handle;
        ASSERT_EQ(cudaMalloc(&memory, kBytes), cudaSuccess);
        ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventInterprocess | cudaEventDisableTiming), cudaSuccess);
        ASSERT_EQ(cudaIpcGetMemHandle(&handle, memory), cudaSuccess);
        ASSERT_EQ(cudaIpcGetEventHandle(&event_handle, event), cudaSuccess);
        ASSERT_EQ(cudaMemsetAsync(memory, 7, kBytes, nullptr), cudaSuccess);
        ASSERT_EQ(cudaEventRecord(event, nullptr), cudaSuccess);
        Send(line, handle);
        Send(line, event_handle);
        Receive<char>(line);
        EXPECT_EQ(FirstByte(memory), 9);
        void* own = nullptr;
        EXPECT_EQ(cudaIpcOpenMemHandle(&own, handle, cudaIpcMemLazyEnablePeerAccess), cudaErrorDeviceUninitialized);
        EXPECT_EQ(cudaGetLastError(), cudaErrorDeviceUninitialized);
        EXPECT_EQ(cudaFree(memory), cudaSuccess);
      },
      [](int line) {
        void* memory = nullptr;
        cudaEvent_t event = nullptr;
        ASSERT_EQ(cudaIpcOpenMemHandle(&memory, Receive<cudaIpcMemHandle_t>(line), cudaIpcMemLazyEnablePeerAccess),
                  cudaSuccess);
        ASSERT_EQ(cudaIpcOpenEventHandle(&event, Receive<cudaIpcEventHandle_t>(line)), cudaSuccess);
        EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
        EXPECT_EQ(FirstByte(memory), 7);
        EXPECT_EQ(cudaFree(memory), cudaErrorInvalidValue);
        EXPECT_EQ(cudaMemset(memory, 9, kBytes), cudaSuccess);
        EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
        EXPECT_EQ(cudaIpcCloseMemHandle(memory), cudaSuccess);
        EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
        Send(line, '.');
      });
}

TEST(SharingTest, APoolInItsOwnProcess) {
  RunTwo(
      [](int) {
        cudaMemPoolProps props = {};
        props.allocType = cudaMemAllocationTypePinned;
        props.handleTypes = cudaMemHandleTypePosixFileDescriptor;
        props.location.type = cudaMemLocationTypeDevice;
        cudaMemPool_t pool = nullptr, imported = nullptr;
        int descriptor = -1, types = 0;
        ASSERT_EQ(cudaDeviceGetAttribute(&types, cudaDevAttrMemoryPoolSupportedHandleTypes, 0), cudaSuccess);
        EXPECT_EQ(types, cudaMemHandleTypePosixFileDescriptor);
        ASSERT_EQ(cudaMemPoolCreate(&pool, &props), cudaSuccess);
        ASSERT_EQ(cudaMemPoolExportToShareableHandle(&descriptor, pool, cudaMemHandleTypePosixFileDescriptor, 0),
                  cudaSuccess);
        ASSERT_EQ(cudaMemPoolImportFromShareableHandle(&imported,
                                                       reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)),
                                                       cudaMemHandleTypePosixFileDescriptor, 0),
                  cudaSuccess);
        close(descriptor);
        void *block = nullptr, *again = nullptr;
        cudaMemPoolPtrExportData data = {};
        ASSERT_EQ(cudaMallocFromPoolAsync(&block, 1000, pool, nullptr), cudaSuccess);
        ASSERT_EQ(cudaMemset(block, 5, 1000), cudaSuccess);
        ASSERT_EQ(cudaMemPoolExportPointer(&data, block), cudaSuccess);
        ASSERT_EQ(cudaMemPoolImportPointer(&again, imported, &data), cudaSuccess);
        EXPECT_NE(again, block);
        EXPECT_EQ(FirstByte(again), 5);
        EXPECT_EQ(cudaFree(again), cudaSuccess);
        EXPECT_EQ(cudaFreeAsync(block, nullptr), cudaSuccess);
        EXPECT_EQ(cudaMemPoolDestroy(imported), cudaSuccess);
        EXPECT_EQ(cudaMemPoolDestroy(pool), cudaSuccess);
      },
      [](int) {});
}

}  // namespace
