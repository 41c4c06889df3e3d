#include "tools/simcuda/runtime/driver_calls.h"

#include <dlfcn.h>

namespace cuheap::simcudart {
namespace {

// 36 is cudaErrorCallRequiresNewerDriver; the driver itself never returns it.
CUresult Missing() { return static_cast<CUresult>(36); }

// Flags of cuGetProcAddress_v2 as the runtime uses them: 0 for the plain functions, 2 for the per-thread ones.
constexpr cuuint64_t kPlain = CU_GET_PROC_ADDRESS_DEFAULT;
constexpr cuuint64_t kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

template <typename Function>
void Find(PFN_cuGetProcAddress_v12000 resolve, const char* name, int version, cuuint64_t flags, Function*& function) {
  void* found = nullptr;
  if (resolve(name, &found, version, flags, nullptr) != CUDA_SUCCESS || found == nullptr) {
    // Ignoring arguments is sound in both processors' C calling conventions: the caller cleans up.
    found = reinterpret_cast<void*>(&Missing);
  }
  function = reinterpret_cast<Function*>(found);
}

}  // namespace

bool LoadDriverCalls(DriverCalls& calls) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return false;
  auto resolve = reinterpret_cast<PFN_cuGetProcAddress_v12000>(dlsym(library, "cuGetProcAddress_v2"));
  if (resolve == nullptr) return false;
  calls.library = library;
  void* probe = nullptr;
  resolve("", &probe, 0, kPlain, nullptr);  // the vendor's runtime begins with this probe and ignores its answer
#define CALL(name, version) Find(resolve, "cu" #name, version, kPlain, calls.name);
#define STREAM_CALL(name, version, per_thread_version, suffix)                          \
  static_assert(sizeof(PFN_cu##name##_v##per_thread_version##suffix) == sizeof(void*)); \
  Find(resolve, "cu" #name, version, kPlain, calls.legacy.name);                        \
  Find(resolve, "cu" #name, per_thread_version, kPerThread, calls.per_thread.name);
#include "tools/simcuda/runtime/driver_calls.inc"
#undef STREAM_CALL
#undef CALL
  Find(resolve, "cuGetProcAddress", 12000, kPlain, calls.GetProcAddress);
  return true;
}

}  // namespace cuheap::simcudart
