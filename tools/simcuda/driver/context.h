// Devices, contexts, the per-thread stack of current contexts.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "tools/simcuda/driver/cuda_api.h"
#include "tools/simcuda/driver/device_table.h"
#include "tools/simcuda/driver/stream.h"

namespace simcuda {

struct Context;
struct Pool;

// One simulated GPU. `used_bytes` is what cuMemGetInfo subtracts from the total.
struct Device {
  int ordinal = 0;
  int physical = 0;  // before CUDA_VISIBLE_DEVICES: decides UUID and PCI place
  const DeviceModel* model = nullptr;
  size_t total_bytes = 0;
  size_t used_bytes = 0;
  std::shared_ptr<Context> primary;  // made at the first use of the device, then the same handle for ever
  unsigned primary_references = 0;
  unsigned primary_flags = 0;
  std::shared_ptr<Pool> default_pool, current_pool;

  // Errors: OUT_OF_MEMORY when fewer than `bytes` are free.
  CUresult Charge(size_t bytes) {
    if (bytes > total_bytes - used_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
    used_bytes += bytes;
    return CUDA_SUCCESS;
  }
  void Refund(size_t bytes) { used_bytes -= bytes; }
};

struct Context : std::enable_shared_from_this<Context> {
  CUcontext handle = nullptr;
  uint64_t id = 0;
  Device* device = nullptr;
  unsigned flags = 0;
  unsigned api_version = 0;
  bool primary = false;
  bool active = true;                                      // false: destroyed, or a primary context that nobody retains
  CUresult sticky = CUDA_SUCCESS;                          // once set, every call of the context answers it
  std::shared_ptr<Stream> legacy;                          // the legacy default stream
  std::map<uint64_t, std::shared_ptr<Stream>> per_thread;  // per-thread default streams, by thread number
  std::vector<std::shared_ptr<Stream>> streams;            // all of them, the default ones included
  std::map<int, size_t> limits;
  std::set<CUcontext> peers;  // contexts whose memory this one may use (cuCtxEnablePeerAccess)
  CUfunc_cache cache_config = CU_FUNC_CACHE_PREFER_NONE;
  CUsharedconfig shared_config = CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE;
};

// The calling thread, by a number that is never repeated.
uint64_t ThreadNumber();

// Finds a device by its handle. Errors: INVALID_DEVICE.
CUresult FindDevice(CUdevice handle, Device** device);

// The context on top of this thread's stack.
// Errors: INVALID_CONTEXT (none), CONTEXT_IS_DESTROYED, or the context's sticky error.
CUresult CurrentContext(Context** context);
// The same without judging it: null when there is none.
Context* CurrentContextOrNull();
// `handle`, or the current context when it is null. Errors: as CurrentContext, INVALID_CONTEXT for an unknown handle.
CUresult ContextOrCurrent(CUcontext handle, Context** context);

// A stream handle as the call that is being made understands it: 0 and the two special handles are the default streams
// of the current context. Errors: as CurrentContext; INVALID_HANDLE for an unknown handle; what the rules of stream
// capture say about the call that is being made (capture.h, CheckStreamUse).
CUresult FindStream(CUstream handle, std::shared_ptr<Stream>* stream);

// Returns from the calling function unless a context is current; names it `context`.
#define SIMCUDA_CURRENT(context) \
  Context* context = nullptr;    \
  if (const CUresult current_error = CurrentContext(&context)) return current_error

}  // namespace simcuda
