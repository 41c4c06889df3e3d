// Arrays, textures and batches through the simulated runtime.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

namespace {

constexpr cudaChannelFormatDesc kWord = {32, 0, 0, 0, cudaChannelFormatKindUnsigned};

std::vector<unsigned> Numbers(std::size_t count) {
  std::vector<unsigned> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 1u);
  return numbers;
}

TEST(RuntimeArray, DescriptionsComeBack) {
  cudaArray_t array = nullptr;
  const cudaChannelFormatDesc four = cudaCreateChannelDesc(16, 16, 16, 16, cudaChannelFormatKindFloat);
  ASSERT_EQ(cudaMallocArray(&array, &four, 10, 6, cudaArraySurfaceLoadStore), cudaSuccess);
  cudaChannelFormatDesc seen = {};
  cudaExtent extent = {};
  unsigned int flags = 0;
  EXPECT_EQ(cudaArrayGetInfo(&seen, &extent, &flags, array), cudaSuccess);
  EXPECT_EQ(seen.w, 16);
  EXPECT_EQ(seen.f, cudaChannelFormatKindFloat);
  EXPECT_EQ(extent.width, 10u);
  EXPECT_EQ(extent.height, 6u);
  EXPECT_EQ(extent.depth, 0u);
  EXPECT_EQ(flags, static_cast<unsigned>(cudaArraySurfaceLoadStore));
  EXPECT_EQ(cudaFreeArray(array), cudaSuccess);
  EXPECT_EQ(cudaFreeArray(array), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeArray(nullptr), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  const cudaChannelFormatDesc three = {8, 8, 8, 0, cudaChannelFormatKindUnsigned};
  EXPECT_EQ(cudaMallocArray(&array, &three, 10, 6, 0), cudaErrorInvalidChannelDescriptor);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidChannelDescriptor);
}

TEST(RuntimeArray, RowsGoInAndOut) {
  cudaArray_t array = nullptr, other = nullptr;
  ASSERT_EQ(cudaMallocArray(&array, &kWord, 8, 4, 0), cudaSuccess);
  ASSERT_EQ(cudaMallocArray(&other, &kWord, 8, 4, 0), cudaSuccess);
  const std::vector<unsigned> in = Numbers(32);
  std::vector<unsigned> out(32), part(4);
  EXPECT_EQ(cudaMemcpy2DToArray(array, 0, 0, in.data(), 32, 32, 4, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpy2DArrayToArray(other, 0, 0, array, 0, 0, 32, 4, cudaMemcpyDeviceToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpy2DFromArray(out.data(), 32, other, 0, 0, 32, 4, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(in, out);
  EXPECT_EQ(cudaMemcpy2DFromArray(part.data(), 8, array, 4, 2, 8, 2, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(part, (std::vector<unsigned>{18, 19, 26, 27}));
  EXPECT_EQ(cudaMemcpy2DFromArray(part.data(), 8, array, 4, 3, 8, 2, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy2DToArray(array, 0, 0, in.data(), 32, 32, 4, cudaMemcpyDeviceToHost),
            cudaErrorInvalidMemcpyDirection);
  cudaGetLastError();
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  std::fill(out.begin(), out.end(), 0u);
  EXPECT_EQ(cudaMemcpy2DFromArrayAsync(out.data(), 32, array, 0, 0, 32, 4, cudaMemcpyDeviceToHost, stream),
            cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(in, out);
  EXPECT_EQ(cudaFreeArray(array), cudaSuccess);
  EXPECT_EQ(cudaFreeArray(other), cudaSuccess);
}

TEST(RuntimeArray, BoxesCountElementsOfTheArray) {
  cudaArray_t array = nullptr;
  ASSERT_EQ(cudaMalloc3DArray(&array, &kWord, {8, 4, 3}, 0), cudaSuccess);
  std::vector<unsigned> in = Numbers(96), out(8);
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = {in.data(), 32, 8, 4};
  copy.dstArray = array;
  copy.extent = {8, 4, 3};
  copy.kind = cudaMemcpyHostToDevice;
  EXPECT_EQ(cudaMemcpy3D(&copy), cudaSuccess);
  copy = {};
  copy.srcArray = array;
  copy.srcPos = {2, 1, 1};
  copy.dstPtr = {out.data(), 8, 2, 2};
  copy.extent = {2, 2, 2};
  copy.kind = cudaMemcpyDeviceToHost;
  EXPECT_EQ(cudaMemcpy3D(&copy), cudaSuccess);
  EXPECT_EQ(out, (std::vector<unsigned>{43, 44, 51, 52, 75, 76, 83, 84}));
  EXPECT_EQ(cudaFreeArray(array), cudaSuccess);
}

TEST(RuntimeArray, MipmapLevels) {
  cudaMipmappedArray_t mipmapped = nullptr;
  ASSERT_EQ(cudaMallocMipmappedArray(&mipmapped, &kWord, {8, 8, 0}, 3, 0), cudaSuccess);
  cudaArray_t level = nullptr;
  EXPECT_EQ(cudaGetMipmappedArrayLevel(&level, mipmapped, 2), cudaSuccess);
  cudaExtent extent = {};
  EXPECT_EQ(cudaArrayGetInfo(nullptr, &extent, nullptr, level), cudaSuccess);
  EXPECT_EQ(extent.width, 2u);
  EXPECT_EQ(cudaGetMipmappedArrayLevel(&level, mipmapped, 3), cudaErrorInvalidValue);
  cudaGetLastError();
  EXPECT_EQ(cudaFreeMipmappedArray(mipmapped), cudaSuccess);
}

TEST(RuntimeArray, TextureObjects) {
  cudaArray_t array = nullptr;
  ASSERT_EQ(cudaMallocArray(&array, &kWord, 8, 4, 0), cudaSuccess);
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaTextureDesc texture = {};
  texture.normalizedCoords = 1;
  texture.readMode = cudaReadModeElementType;
  cudaTextureObject_t object = 0;
  ASSERT_EQ(cudaCreateTextureObject(&object, &resource, &texture, nullptr), cudaSuccess);
  cudaResourceDesc seen = {};
  cudaTextureDesc seen_texture = {};
  EXPECT_EQ(cudaGetTextureObjectResourceDesc(&seen, object), cudaSuccess);
  EXPECT_EQ(seen.res.array.array, array);
  EXPECT_EQ(cudaGetTextureObjectTextureDesc(&seen_texture, object), cudaSuccess);
  EXPECT_EQ(seen_texture.normalizedCoords, 1);
  EXPECT_EQ(seen_texture.readMode, cudaReadModeElementType);
  EXPECT_EQ(seen_texture.sRGB, 0);
  EXPECT_EQ(cudaDestroyTextureObject(object), cudaSuccess);
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 4096), cudaSuccess);
  resource = {};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear.devPtr = memory;
  resource.res.linear.desc = kWord;
  resource.res.linear.sizeInBytes = 4096;
  ASSERT_EQ(cudaCreateTextureObject(&object, &resource, &texture, nullptr), cudaSuccess);
  EXPECT_EQ(cudaDestroyTextureObject(object), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_EQ(cudaFreeArray(array), cudaSuccess);
}

TEST(RuntimeArray, BatchesOfCopies) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  void* device = nullptr;
  ASSERT_EQ(cudaMalloc(&device, 64), cudaSuccess);
  std::vector<unsigned> in = Numbers(16), out(16);
  void* to[] = {device, static_cast<char*>(device) + 32};
  const void* from[] = {in.data() + 8, in.data()};
  const std::size_t sizes[] = {32, 32};
  cudaMemcpyAttributes attributes = {};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  std::size_t index = 0;
  EXPECT_EQ(cudaMemcpyBatchAsync(to, from, sizes, 2, &attributes, &index, 1, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(out.data(), device, 64, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(out[0], 9u);
  EXPECT_EQ(out[8], 1u);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
}

}  // namespace
