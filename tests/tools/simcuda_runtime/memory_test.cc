// Memory through the simulated runtime: what a program without a GPU sees of cudaMalloc, cudaMemcpy and their kin.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

namespace {

TEST(RuntimeMemory, AllocatesAndFrees) {
  void* pointer = nullptr;
  ASSERT_EQ(cudaMalloc(&pointer, 1000), cudaSuccess);
  EXPECT_NE(pointer, nullptr);
  EXPECT_EQ(cudaFree(pointer), cudaSuccess);
}

TEST(RuntimeMemory, NothingIsAllocatedForNoBytes) {
  void* pointer = reinterpret_cast<void*>(1);
  EXPECT_EQ(cudaMalloc(&pointer, 0), cudaSuccess);
  EXPECT_EQ(pointer, nullptr);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
}

TEST(RuntimeMemory, FailureIsReturnedAndRememberedOnce) {
  void* pointer = nullptr;
  EXPECT_EQ(cudaMalloc(&pointer, std::size_t{1} << 60), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(RuntimeMemory, UnknownPointerIsRefused) {
  int local = 0;
  EXPECT_EQ(cudaFree(&local), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
}

TEST(RuntimeMemory, CopiesBytesThereAndBack) {
  std::vector<unsigned char> in(5000);
  std::iota(in.begin(), in.end(), 1);
  std::vector<unsigned char> out(in.size(), 0);
  void* first = nullptr;
  void* second = nullptr;
  ASSERT_EQ(cudaMalloc(&first, in.size()), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&second, in.size()), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(first, in.data(), in.size(), cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(second, first, in.size(), cudaMemcpyDeviceToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(out.data(), second, in.size(), cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(in, out);
  // NOLINTNEXTLINE(clang-analyzer-optin.core.EnumCastOutOfRange): the number is the point
  EXPECT_EQ(cudaMemcpy(out.data(), second, 1, static_cast<cudaMemcpyKind>(9)), cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(cudaFree(first), cudaSuccess);
  EXPECT_EQ(cudaFree(second), cudaSuccess);
}

TEST(RuntimeMemory, SetsBytes) {
  unsigned char out[64];
  void* pointer = nullptr;
  ASSERT_EQ(cudaMalloc(&pointer, sizeof out), cudaSuccess);
  EXPECT_EQ(cudaMemset(pointer, 0x1A5, sizeof out), cudaSuccess);  // only the low byte counts
  EXPECT_EQ(cudaMemset(pointer, 7, 10), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(out, pointer, sizeof out, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(out[9], 7);
  EXPECT_EQ(out[10], 0xA5);
  EXPECT_EQ(cudaFree(pointer), cudaSuccess);
}

TEST(RuntimeMemory, CopiesAndSetsRowsOfAPitch) {
  void* pointer = nullptr;
  std::size_t pitch = 0;
  ASSERT_EQ(cudaMallocPitch(&pointer, &pitch, 100, 8), cudaSuccess);
  EXPECT_GE(pitch, 100U);
  EXPECT_EQ(cudaMemset2D(pointer, pitch, 3, 100, 8), cudaSuccess);
  std::vector<unsigned char> in(40 * 8, 9);
  EXPECT_EQ(cudaMemcpy2D(pointer, pitch, in.data(), 40, 40, 8, cudaMemcpyHostToDevice), cudaSuccess);
  std::vector<unsigned char> out(100 * 8, 0);
  EXPECT_EQ(cudaMemcpy2D(out.data(), 100, pointer, pitch, 100, 8, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(out[700 + 39], 9);
  EXPECT_EQ(out[700 + 40], 3);
  EXPECT_EQ(cudaMemcpy2D(out.data(), 50, pointer, pitch, 100, 8, cudaMemcpyDeviceToHost), cudaErrorInvalidPitchValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidPitchValue);
  EXPECT_EQ(cudaFree(pointer), cudaSuccess);
}

TEST(RuntimeMemory, SetsABoxAndCopiesIt) {
  cudaPitchedPtr box = {};
  ASSERT_EQ(cudaMalloc3D(&box, cudaExtent{16, 4, 3}), cudaSuccess);
  EXPECT_EQ(cudaMemset3D(box, 1, cudaExtent{16, 4, 3}), cudaSuccess);
  EXPECT_EQ(cudaMemset3D(box, 2, cudaExtent{8, 2, 3}), cudaSuccess);
  unsigned char out[16 * 4 * 3] = {};
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = box;
  copy.dstPtr = cudaPitchedPtr{out, 16, 16, 4};
  copy.extent = cudaExtent{16, 4, 3};
  copy.kind = cudaMemcpyDeviceToHost;
  EXPECT_EQ(cudaMemcpy3D(&copy), cudaSuccess);
  EXPECT_EQ(out[128 + 7], 2);       // third slice, first row
  EXPECT_EQ(out[128 + 16 + 7], 2);  // second row
  EXPECT_EQ(out[128 + 32 + 7], 1);  // third row: outside the smaller box
  EXPECT_EQ(out[128 + 8], 1);
  EXPECT_EQ(cudaFree(box.ptr), cudaSuccess);
}

TEST(RuntimeMemory, HostMemoryIsTheHosts) {
  int* host = nullptr;
  ASSERT_EQ(cudaMallocHost(reinterpret_cast<void**>(&host), 4096), cudaSuccess);
  *host = 5;
  cudaPointerAttributes attributes = {};
  EXPECT_EQ(cudaPointerGetAttributes(&attributes, host), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  EXPECT_EQ(attributes.hostPointer, host);
  EXPECT_EQ(cudaFreeHost(host), cudaSuccess);
}

TEST(RuntimeMemory, RegisteredMemoryIsPinnedUntilItIsNot) {
  std::vector<char> pages(64 << 10);
  ASSERT_EQ(cudaHostRegister(pages.data(), pages.size(), cudaHostRegisterDefault), cudaSuccess);
  void* device_pointer = nullptr;
  EXPECT_EQ(cudaHostGetDevicePointer(&device_pointer, pages.data(), 0), cudaSuccess);
  EXPECT_NE(device_pointer, nullptr);
  EXPECT_EQ(cudaHostUnregister(pages.data()), cudaSuccess);
  EXPECT_EQ(cudaHostUnregister(pages.data()), cudaErrorHostMemoryNotRegistered);
  EXPECT_EQ(cudaGetLastError(), cudaErrorHostMemoryNotRegistered);
}

TEST(RuntimeMemory, AttributesTellDeviceFromUnknownPointers) {
  void* pointer = nullptr;
  ASSERT_EQ(cudaMalloc(&pointer, 64), cudaSuccess);
  cudaPointerAttributes attributes = {};
  EXPECT_EQ(cudaPointerGetAttributes(&attributes, static_cast<char*>(pointer) + 10), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  EXPECT_EQ(attributes.device, 0);
  EXPECT_EQ(attributes.devicePointer, static_cast<char*>(pointer) + 10);
  int local = 0;
  EXPECT_EQ(cudaPointerGetAttributes(&attributes, &local), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  EXPECT_EQ(attributes.devicePointer, nullptr);
  EXPECT_EQ(cudaFree(pointer), cudaSuccess);
}

TEST(RuntimeMemory, FreeMemoryShrinksByWhatIsAllocated) {
  std::size_t before = 0;
  std::size_t after = 0;
  std::size_t total = 0;
  void* pointer = nullptr;
  ASSERT_EQ(cudaMemGetInfo(&before, &total), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&pointer, 64 << 20), cudaSuccess);
  ASSERT_EQ(cudaMemGetInfo(&after, &total), cudaSuccess);
  EXPECT_EQ(before - after, 64U << 20);
  EXPECT_LE(before, total);
  EXPECT_EQ(cudaFree(pointer), cudaSuccess);
}

TEST(RuntimeMemory, StreamOrderedMemoryComesFromAPool) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  void* pointer = nullptr;
  ASSERT_EQ(cudaMallocAsync(&pointer, 1 << 20, stream), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(pointer, 4, 16, stream), cudaSuccess);
  unsigned char out[16] = {};
  EXPECT_EQ(cudaMemcpyAsync(out, pointer, 16, cudaMemcpyDeviceToHost, stream), cudaSuccess);
  EXPECT_EQ(cudaFreeAsync(pointer, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(out[15], 4);
  cudaMemPool_t pool = nullptr;
  EXPECT_EQ(cudaDeviceGetDefaultMemPool(&pool, 0), cudaSuccess);
  EXPECT_EQ(cudaMemPoolTrimTo(pool, 0), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

}  // namespace
