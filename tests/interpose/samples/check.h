// What the samples share: a failed call ends the program and says where, and results are printed as checksums.
#ifndef CUHEAP_TESTS_INTERPOSE_SAMPLES_CHECK_H_
#define CUHEAP_TESTS_INTERPOSE_SAMPLES_CHECK_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace samples {

[[noreturn]] inline void Fail(const char* file, int line, const char* call, int code, const char* name) {
  std::printf("%s:%d: %s failed: %d (%s)\n", file, line, call, code, name);
  std::exit(1);
}

// A program that needs a newer driver, more devices or another feature ends with 77, as tests do that can't run here.
[[noreturn]] inline void Skip(const char* reason) {
  std::printf("skipped: %s\n", reason);
  std::exit(77);
}

inline void CheckRuntime(const char* file, int line, const char* call, cudaError_t status) {
  if (status == cudaErrorInsufficientDriver) Skip("the driver is older than this CUDA runtime");
  if (status != cudaSuccess) Fail(file, line, call, status, cudaGetErrorName(status));
}

inline void CheckDriver(const char* file, int line, const char* call, CUresult status) {
  if (status != CUDA_SUCCESS) Fail(file, line, call, status, "CUresult");
}

// The C interface takes addresses of void pointers.
template <class T>
void** Out(T** pointer) {
  return reinterpret_cast<void**>(pointer);
}

// FNV-1a over words: printed instead of thousands of numbers.
inline unsigned long long Checksum(const unsigned* words, std::size_t count) {
  unsigned long long hash = 0xcbf29ce484222325ULL;
  for (std::size_t i = 0; i < count; ++i) hash = (hash ^ words[i]) * 0x100000001b3ULL;
  return hash;
}

inline unsigned long long Checksum(const std::vector<unsigned>& words) { return Checksum(words.data(), words.size()); }

// 0, 1·step, 2·step, … with a start: data that tells where it came from.
inline std::vector<unsigned> Sequence(std::size_t count, unsigned start, unsigned step) {
  std::vector<unsigned> words(count);
  for (std::size_t i = 0; i < count; ++i) words[i] = start + static_cast<unsigned>(i) * step;
  return words;
}

inline void Expect(bool holds, const char* what) {
  std::printf("%s: %s\n", what, holds ? "right" : "WRONG");
  if (!holds) std::exit(1);
}

}  // namespace samples

#define CHECK_CUDA(call) ::samples::CheckRuntime(__FILE_NAME__, __LINE__, #call, (call))
#define CHECK_DRIVER(call) ::samples::CheckDriver(__FILE_NAME__, __LINE__, #call, (call))

#endif  // CUHEAP_TESTS_INTERPOSE_SAMPLES_CHECK_H_
