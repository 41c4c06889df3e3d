// CUDA Error Log Management Functions (Driver API reference). What the log holds is the driver's own affair, and this
// one never writes a message; programs register at start all the same (PyTorch does).
#include <cstdio>
#include <set>

#include "entry_points.h"

namespace simcuda {
namespace {

// Handles given out; the driver's lock is held in every call.
std::set<CUlogsCallbackHandle>& Registered() {
  static auto* const registered = new std::set<CUlogsCallbackHandle>();
  return *registered;
}

}  // namespace

CUresult impl::cuLogsRegisterCallback(CUlogsCallback callbackFunc, void*, CUlogsCallbackHandle* callback_out) {
  if (callbackFunc == nullptr) return CUDA_ERROR_INVALID_VALUE;
  static uintptr_t last = 0x59000000;
  const auto handle = reinterpret_cast<CUlogsCallbackHandle>(last += 0x40);
  Registered().insert(handle);
  if (callback_out != nullptr) *callback_out = handle;
  return CUDA_SUCCESS;
}

CUresult impl::cuLogsUnregisterCallback(CUlogsCallbackHandle callback) {
  return Registered().erase(callback) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult impl::cuLogsCurrent(CUlogIterator* iterator_out, unsigned int flags) {
  if (iterator_out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  *iterator_out = 0;
  return CUDA_SUCCESS;
}

CUresult impl::cuLogsDumpToFile(CUlogIterator*, const char* pathToFile, unsigned int flags) {
  if (pathToFile == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  std::FILE* file = std::fopen(pathToFile, "w");
  if (file == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::fclose(file);
  return CUDA_SUCCESS;
}

CUresult impl::cuLogsDumpToMemory(CUlogIterator*, char* buffer, size_t* size, unsigned int flags) {
  if (buffer == nullptr || size == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (*size > 0) *buffer = '\0';
  *size = 0;
  return CUDA_SUCCESS;
}

}  // namespace simcuda
