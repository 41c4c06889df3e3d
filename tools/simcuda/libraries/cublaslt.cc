// cuBLASLt, "cuBLASLt API Reference": handles, algorithms, and the work itself.
#include <cstdio>
#include <mutex>
#include <unordered_set>

#include "tools/simcuda/libraries/cublaslt_attributes.h"

using namespace cuheap::simblas;  // NOLINT(google-build-using-namespace): the file is about nothing else

namespace {

// A program may pass a cuBLAS handle instead (a cublasHandle_t encapsulates a cublasLtHandle_t, as documented), so a
// handle is looked at only where it is destroyed.
struct LightHandle {};

struct Handles {
  std::mutex mutex;
  std::unordered_set<const void*> live;
};

Handles& All() {
  static auto* const handles = new Handles();
  return *handles;
}

// cublasLtMatmulHeuristicResult_t.
struct HeuristicResult {
  std::uint64_t algorithm[8];  // cublasLtMatmulAlgo_t
  std::size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};
static_assert(sizeof(HeuristicResult) == 96);

// The one algorithm there is: for every shape, without a workspace.
constexpr int kAlgorithmId = 0;

MatmulAlgorithm Algorithm() {
  MatmulAlgorithm algorithm = {};
  algorithm.id = kAlgorithmId;
  algorithm.split_k = 1;
  return algorithm;
}

void Fill(HeuristicResult& result) {
  result = {};
  const MatmulAlgorithm algorithm = Algorithm();
  std::memcpy(result.algorithm, &algorithm, sizeof algorithm);
  result.state = kSuccess;
  result.waves = 1.0F;
}

constexpr Attribute kConfigurationAttributes[] = {
    {0, offsetof(MatmulAlgorithm, id), 4},
    {1, offsetof(MatmulAlgorithm, tile), 4},
    {2, offsetof(MatmulAlgorithm, split_k), 4},
    {3, offsetof(MatmulAlgorithm, reduction_scheme), 4},
    {4, offsetof(MatmulAlgorithm, swizzling), 4},
    {5, offsetof(MatmulAlgorithm, custom_option), 4},
    {6, offsetof(MatmulAlgorithm, stages), 4},
    {7, offsetof(MatmulAlgorithm, inner_shape), 2},
    {8, offsetof(MatmulAlgorithm, cluster_shape), 2},
};

}  // namespace

SIMCUDA_BLAS_EXPORT int cublasLtCreate(LightHandle** handle) {
  if (handle == nullptr) return kInvalidValue;
  if (Status status = EnsureContext(); status != kSuccess) return status;
  *handle = new LightHandle();
  std::lock_guard lock(All().mutex);
  All().live.insert(*handle);
  return kSuccess;
}

SIMCUDA_BLAS_EXPORT int cublasLtDestroy(LightHandle* handle) {
  std::lock_guard lock(All().mutex);
  if (All().live.erase(handle) == 0) return kNotInitialized;
  delete handle;
  return kSuccess;
}

SIMCUDA_BLAS_EXPORT const char* cublasLtGetStatusName(int status) { return StatusName(static_cast<Status>(status)); }

SIMCUDA_BLAS_EXPORT const char* cublasLtGetStatusString(int status) { return StatusText(static_cast<Status>(status)); }

SIMCUDA_BLAS_EXPORT std::size_t cublasLtGetVersion() { return static_cast<std::size_t>(Version()); }

SIMCUDA_BLAS_EXPORT std::size_t cublasLtGetCudartVersion() { return SIMCUDART_MAJOR >= 13 ? 13000 : 12090; }

SIMCUDA_BLAS_EXPORT int cublasLtGetProperty(int type, int* value) { return Property(type, value); }

// There is no cache; a capacity of 0 means just that.
SIMCUDA_BLAS_EXPORT int cublasLtHeuristicsCacheGetCapacity(std::size_t* capacity) {
  if (capacity == nullptr) return kInvalidValue;
  *capacity = 0;
  return kSuccess;
}

SIMCUDA_BLAS_EXPORT int cublasLtHeuristicsCacheSetCapacity(std::size_t) { return kSuccess; }

SIMCUDA_BLAS_EXPORT unsigned cublasLtDisableCpuInstructionsSetMask(unsigned) { return 0; }

SIMCUDA_BLAS_EXPORT int cublasLtMatmul(LightHandle*, MatmulDescription* description, const void*, const void*,
                                       MatrixLayout* a, const void*, MatrixLayout* b, const void*, const void*,
                                       MatrixLayout* c, void*, MatrixLayout* d, const void*, void*, std::size_t,
                                       CUstream stream) {
  if (description == nullptr || a == nullptr || b == nullptr || c == nullptr || d == nullptr) return kInvalidValue;
  return EnqueueWork(stream);
}

SIMCUDA_BLAS_EXPORT int cublasLtMatrixTransform(LightHandle*, TransformDescription* description, const void*,
                                                const void*, MatrixLayout*, const void*, const void*, MatrixLayout*,
                                                void*, MatrixLayout* c, CUstream stream) {
  if (description == nullptr || c == nullptr) return kInvalidValue;
  return EnqueueWork(stream);
}

SIMCUDA_BLAS_EXPORT int cublasLtMatmulAlgoGetHeuristic(LightHandle*, MatmulDescription* description, MatrixLayout* a,
                                                       MatrixLayout* b, MatrixLayout* c, MatrixLayout* d,
                                                       MatmulPreference*, int requested, HeuristicResult* results,
                                                       int* count) {
  if (requested <= 0 || results == nullptr || count == nullptr) return kInvalidValue;
  if (description == nullptr || a == nullptr || b == nullptr || c == nullptr || d == nullptr) return kInvalidValue;
  Fill(results[0]);
  *count = 1;
  return kSuccess;
}

SIMCUDA_BLAS_EXPORT int cublasLtMatmulAlgoGetIds(LightHandle*, int, int, int, int, int, int, int requested, int* ids,
                                                 int* count) {
  if (requested <= 0 || ids == nullptr || count == nullptr) return kInvalidValue;
  ids[0] = kAlgorithmId;
  *count = 1;
  return kSuccess;
}

SIMCUDA_BLAS_EXPORT int cublasLtMatmulAlgoInit(LightHandle*, int, int, int, int, int, int, int id, void* algorithm) {
  if (algorithm == nullptr || id != kAlgorithmId) return kInvalidValue;
  const MatmulAlgorithm made = Algorithm();
  std::memset(algorithm, 0, 64);
  std::memcpy(algorithm, &made, sizeof made);
  return kSuccess;
}

SIMCUDA_BLAS_EXPORT int cublasLtMatmulAlgoCheck(LightHandle*, MatmulDescription*, MatrixLayout*, MatrixLayout*,
                                                MatrixLayout*, MatrixLayout*, const void* algorithm,
                                                HeuristicResult* result) {
  if (algorithm == nullptr || result == nullptr) return kInvalidValue;
  Fill(*result);
  std::memcpy(result->algorithm, algorithm, sizeof result->algorithm);
  return kSuccess;
}

// What the one algorithm can do: nothing beyond the defaults.
SIMCUDA_BLAS_EXPORT int cublasLtMatmulAlgoCapGetAttribute(const void* algorithm, int, void* value, std::size_t bytes,
                                                          std::size_t* written) {
  if (algorithm == nullptr || (bytes != 0 && value == nullptr)) return kInvalidValue;
  if (bytes != 0) std::memset(value, 0, bytes);
  if (written != nullptr) *written = bytes;
  return kSuccess;
}

SIMCUDA_BLAS_EXPORT int cublasLtMatmulAlgoConfigSetAttribute(void* algorithm, int number, const void* value,
                                                             std::size_t bytes) {
  return SetAttribute(algorithm, kConfigurationAttributes, number, value, bytes);
}

SIMCUDA_BLAS_EXPORT int cublasLtMatmulAlgoConfigGetAttribute(const void* algorithm, int number, void* value,
                                                             std::size_t bytes, std::size_t* written) {
  return GetAttribute(algorithm, kConfigurationAttributes, number, value, bytes, written);
}

// There is nothing to log: the driver's log has every call.
SIMCUDA_BLAS_EXPORT int cublasLtLoggerSetCallback(void (*)(int, const char*, const char*)) { return kSuccess; }
SIMCUDA_BLAS_EXPORT int cublasLtLoggerSetFile(std::FILE*) { return kSuccess; }
SIMCUDA_BLAS_EXPORT int cublasLtLoggerOpenFile(const char*) { return kSuccess; }
SIMCUDA_BLAS_EXPORT int cublasLtLoggerSetLevel(int) { return kSuccess; }
SIMCUDA_BLAS_EXPORT int cublasLtLoggerSetMask(int) { return kSuccess; }
SIMCUDA_BLAS_EXPORT int cublasLtLoggerForceDisable() { return kSuccess; }
