// CUDA Runtime API: what arrays, textures and surfaces have in common.
#ifndef CUHEAP_TOOLS_SIMCUDA_RUNTIME_ARRAY_H_
#define CUHEAP_TOOLS_SIMCUDA_RUNTIME_ARRAY_H_

#include <cstddef>

#include "tools/simcuda/runtime/runtime.h"

namespace cuheap::simcudart {

// The runtime's handles are the driver's.
inline CUarray ToDriver(cudaArray_const_t array) { return reinterpret_cast<CUarray>(const_cast<cudaArray_t>(array)); }
inline CUmipmappedArray ToDriver(cudaMipmappedArray_const_t array) {
  return reinterpret_cast<CUmipmappedArray>(const_cast<cudaMipmappedArray_t>(array));
}

// The driver's format of a channel description, and back. False for one that arrays cannot have: components of
// different or odd widths, three of them.
bool ToFormat(const cudaChannelFormatDesc& description, CUarray_format* format, unsigned int* channels);
cudaChannelFormatDesc FromFormat(CUarray_format format, unsigned int channels);

// Bytes of an element of the array, and of a row. The array's own error if it is none.
CUresult ElementOf(const DriverCalls& driver, cudaArray_const_t array, std::size_t* element, std::size_t* row);

}  // namespace cuheap::simcudart

#endif  // CUHEAP_TOOLS_SIMCUDA_RUNTIME_ARRAY_H_
