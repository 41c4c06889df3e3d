// The kernels that are registered from the start (simcuda.h), and the functions of simcuda.h.
#include "tools/simcuda/driver/test_kernels.h"

#include <cstring>
#include <memory>

#include "tools/simcuda/driver/call.h"
#include "tools/simcuda/driver/context.h"
#include "tools/simcuda/driver/copy.h"
#include "tools/simcuda/driver/queue.h"
#include "tools/simcuda/driver/state.h"

namespace simcuda {
namespace {

template <typename T>
T Parameter(const SimcudaLaunch& launch, unsigned index) {
  T value;
  std::memcpy(&value, launch.parameters[index], sizeof value);
  return value;
}

// The bytes behind an address parameter; null (and the context is lost) when they are not there.
template <typename T>
T* View(const SimcudaLaunch& launch, unsigned index, uint64_t count) {
  const auto address = Parameter<CUdeviceptr>(launch, index);
  void* view = count > UINT64_MAX / sizeof(T) ? nullptr : simcuda_host_view(address, count * sizeof(T));
  if (view == nullptr) simcuda_fail_context(CUDA_ERROR_ILLEGAL_ADDRESS);
  return static_cast<T*>(view);
}

int FillKernel(const SimcudaLaunch* launch) {
  const auto count = Parameter<uint64_t>(*launch, 1);
  auto* to = View<uint32_t>(*launch, 0, count);
  for (uint64_t i = 0; to != nullptr && i < count; ++i) to[i] = Parameter<uint32_t>(*launch, 2);
  return 0;
}

int AddKernel(const SimcudaLaunch* launch) {
  const auto count = Parameter<uint64_t>(*launch, 3);
  auto* to = View<uint32_t>(*launch, 0, count);
  const auto* a = View<uint32_t>(*launch, 1, count);
  const auto* b = View<uint32_t>(*launch, 2, count);
  if (to == nullptr || a == nullptr || b == nullptr) return 0;
  for (uint64_t i = 0; i < count; ++i) to[i] = a[i] + b[i];
  return 0;
}

int CopyKernel(const SimcudaLaunch* launch) {
  const auto bytes = Parameter<uint64_t>(*launch, 2);
  auto* to = View<char>(*launch, 0, bytes);
  const auto* from = View<char>(*launch, 1, bytes);
  if (to != nullptr && from != nullptr) std::memmove(to, from, bytes);
  return 0;
}

int ChecksumKernel(const SimcudaLaunch* launch) {
  const auto bytes = Parameter<uint64_t>(*launch, 2);
  auto* result = View<uint64_t>(*launch, 0, 1);
  const auto* from = View<unsigned char>(*launch, 1, bytes);
  if (result == nullptr || from == nullptr) return 0;
  uint64_t hash = 0xcbf29ce484222325u;
  for (uint64_t i = 0; i < bytes; ++i) hash = (hash ^ from[i]) * 0x100000001b3u;
  *result = hash;
  return 0;
}

int ScaleAddKernel(const SimcudaLaunch* launch) {
  const auto count = Parameter<uint64_t>(*launch, 1);
  auto* x = View<uint32_t>(*launch, 0, count);
  for (uint64_t i = 0; x != nullptr && i < count; ++i) {
    x[i] = x[i] * Parameter<uint32_t>(*launch, 2) + Parameter<uint32_t>(*launch, 3);
  }
  return 0;
}

int SpinKernel(const SimcudaLaunch* launch) {
  const auto* flag = View<uint32_t>(*launch, 0, 1);
  if (flag == nullptr) return 0;
  // The host writes it while we look: an atomic load, as a GPU would see the memory.
  return __atomic_load_n(flag, __ATOMIC_ACQUIRE) == Parameter<uint32_t>(*launch, 1) ? 0 : 1;
}

// The context whose work this thread is running.
Context*& RunningContext() {
  thread_local Context* context = nullptr;
  return context;
}

}  // namespace

void SetRunningContext(Context* context) { RunningContext() = context; }

void RegisterBuiltInKernels(Modules& modules) {
  modules.registered["simcuda_fill"] = {FillKernel, {8, 8, 4}};
  modules.registered["simcuda_add"] = {AddKernel, {8, 8, 8, 8}};
  modules.registered["simcuda_copy"] = {CopyKernel, {8, 8, 8}};
  modules.registered["simcuda_checksum"] = {ChecksumKernel, {8, 8, 8}};
  modules.registered["simcuda_scale_add"] = {ScaleAddKernel, {8, 8, 4, 4}};
  modules.registered["simcuda_spin"] = {SpinKernel, {8, 4}};
}

}  // namespace simcuda

using namespace simcuda;  // NOLINT: the C functions below are the file's purpose

#define SIMCUDA_EXPORT extern "C" __attribute__((visibility("default")))

SIMCUDA_EXPORT CUresult simcuda_register_kernel(const char* name, SimcudaKernelFunction function,
                                                unsigned int parameter_count, const size_t* parameter_bytes) {
  if (name == nullptr || function == nullptr || (parameter_count > 0 && parameter_bytes == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  State& state = State::Get();
  const std::lock_guard<std::mutex> lock(state.mutex);
  state.modules.registered[name] = {function, std::vector<size_t>(parameter_bytes, parameter_bytes + parameter_count)};
  return CUDA_SUCCESS;
}

SIMCUDA_EXPORT CUresult simcuda_launch_hidden(CUstream stream, SimcudaKernelFunction function, void* user_data) {
  static const EntryInfo kInfo{"simcuda_launch_hidden", 0};
  Call call(kInfo);
  if (const CUresult result = call.Begin()) return result;
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Stream> found;
  if (const CUresult result = FindStream(stream, &found)) return result;
  State::Get().engine.Enqueue(found, NewWork("hidden", [function, user_data] {
                                SimcudaLaunch launch{};
                                launch.name = "hidden";
                                launch.user_data = user_data;
                                return function(&launch) == 0 ? Outcome::kDone : Outcome::kAgain;
                              }));
  return call.Finish(CUDA_SUCCESS);
}

SIMCUDA_EXPORT void* simcuda_host_view(CUdeviceptr address, size_t bytes) {
  State& state = State::Get();
  std::unique_lock<std::mutex> lock(state.mutex, std::defer_lock);
  // A kernel already runs under the lock; a host function and anybody else do not.
  if (ThreadLock() == nullptr || !ThreadLock()->owns_lock()) lock.lock();
  const bool there = (state.memory.Accessible(address, bytes) || InPoolPages(address, bytes)) &&
                     (RunningContext() == nullptr || KernelMayUse(*RunningContext(), address, bytes));
  return there ? reinterpret_cast<void*>(address) : nullptr;
}

SIMCUDA_EXPORT void simcuda_fail_context(CUresult code) {
  if (Context* context = RunningContext()) context->sticky = code;
}

SIMCUDA_EXPORT CUresult simcuda_inject(const char* name, uint64_t nth, CUresult code, int sticky) {
  if (name == nullptr || nth == 0 || code == CUDA_SUCCESS) return CUDA_ERROR_INVALID_VALUE;
  State& state = State::Get();
  const std::lock_guard<std::mutex> lock(state.mutex);
  state.config.faults.push_back({name, nth, code, sticky != 0, 0});
  return CUDA_SUCCESS;
}

SIMCUDA_EXPORT void simcuda_clear_faults() {
  State& state = State::Get();
  const std::lock_guard<std::mutex> lock(state.mutex);
  state.config.faults.clear();
}

SIMCUDA_EXPORT CUresult simcuda_declare_variable(const char* name, size_t bytes, int managed) {
  if (name == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  State& state = State::Get();
  const std::lock_guard<std::mutex> lock(state.mutex);
  state.modules.variables[name] = {bytes, managed != 0};
  return CUDA_SUCCESS;
}

SIMCUDA_EXPORT size_t simcuda_pending_work() {
  State& state = State::Get();
  const std::lock_guard<std::mutex> lock(state.mutex);
  return state.engine.pending();
}

SIMCUDA_EXPORT const SimcudaTable* simcuda_get_table(unsigned int version) {
  static const SimcudaTable kTable = {sizeof(SimcudaTable), simcuda_register_kernel,  simcuda_launch_hidden,
                                      simcuda_host_view,    simcuda_fail_context,     simcuda_inject,
                                      simcuda_clear_faults, simcuda_declare_variable, simcuda_pending_work};
  return version == SIMCUDA_TABLE_VERSION ? &kTable : nullptr;
}
