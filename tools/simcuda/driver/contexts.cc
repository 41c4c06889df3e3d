// Context Management (Driver API reference 6.8).
#include "tools/simcuda/driver/capture.h"
#include "tools/simcuda/driver/contexts.h"

#include <algorithm>

#include "entry_points.h"
#include "tools/simcuda/driver/state.h"

namespace simcuda {
namespace {

constexpr unsigned kContextFlags = CU_CTX_FLAGS_MASK;

size_t DefaultLimit(CUlimit limit) {
  switch (limit) {
    case CU_LIMIT_STACK_SIZE:
      return 1024;
    case CU_LIMIT_PRINTF_FIFO_SIZE:
      return size_t{1} << 20;
    case CU_LIMIT_MALLOC_HEAP_SIZE:
      return size_t{8} << 20;
    case CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH:
      return 2;
    case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT:
      return 2048;
    case CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
      return 64;
    default:
      return 0;
  }
}

CUresult CreateContext(CUcontext* handle, unsigned flags, CUdevice dev, unsigned version) {
  if (handle == nullptr || (flags & ~kContextFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  Device* device = nullptr;
  if (const CUresult result = FindDevice(dev, &device)) return result;
  State& state = State::Get();
  auto context = std::make_shared<Context>();
  context->device = device;
  context->flags = flags;
  context->api_version = version;
  if (const CUresult result = ActivateContext(context)) return result;
  context->handle = state.contexts.Add(context);
  ContextStack().push_back(context);
  *handle = context->handle;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult impl::cuCtxCreate_v2(CUcontext* pctx, unsigned int flags, CUdevice dev) {
  return CreateContext(pctx, flags, dev, 3020);
}

CUresult impl::cuCtxCreate_v3(CUcontext* pctx, CUexecAffinityParam* paramsArray, int numParams, unsigned int flags,
                              CUdevice dev) {
  if (numParams < 0 || (numParams > 0 && paramsArray == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  if (numParams > 0) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  return CreateContext(pctx, flags, dev, 3020);
}

CUresult impl::cuCtxCreate_v4(CUcontext* pctx, CUctxCreateParams* ctxCreateParams, unsigned int flags, CUdevice dev) {
  if (ctxCreateParams != nullptr && ctxCreateParams->numExecAffinityParams > 0)
    return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  if (ctxCreateParams != nullptr && ctxCreateParams->cigParams != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  return CreateContext(pctx, flags, dev, 3020);
}

CUresult impl::cuCtxDestroy_v2(CUcontext ctx) {
  State& state = State::Get();
  const std::shared_ptr<Context> context = state.contexts.Find(ctx);
  if (!context || context->primary || !context->active) return CUDA_ERROR_INVALID_CONTEXT;
  DeactivateContext(*context, "cuCtxDestroy");
  state.contexts.Remove(ctx);
  if (CurrentContextOrNull() == context.get()) ContextStack().pop_back();
  return CUDA_SUCCESS;
}

CUresult impl::cuCtxPushCurrent_v2(CUcontext ctx) {
  const std::shared_ptr<Context> context = State::Get().contexts.Find(ctx);
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  ContextStack().push_back(context);
  return CUDA_SUCCESS;
}

CUresult impl::cuCtxPopCurrent_v2(CUcontext* pctx) {
  if (ContextStack().empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (pctx != nullptr) *pctx = ContextStack().back()->handle;
  ContextStack().pop_back();
  return CUDA_SUCCESS;
}

CUresult impl::cuCtxSetCurrent(CUcontext ctx) {
  auto& stack = ContextStack();
  if (ctx == nullptr) {
    if (!stack.empty()) stack.pop_back();
    return CUDA_SUCCESS;
  }
  const std::shared_ptr<Context> context = State::Get().contexts.Find(ctx);
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  if (stack.empty()) {
    stack.push_back(context);
  } else {
    stack.back() = context;
  }
  return CUDA_SUCCESS;
}

CUresult impl::cuCtxGetCurrent(CUcontext* pctx) {
  if (pctx == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Context* context = CurrentContextOrNull();
  *pctx = context == nullptr ? nullptr : context->handle;
  return CUDA_SUCCESS;
}

// Unlike others its documentation has no note that it "may also return error codes from previous, asynchronous launches".
CUresult impl::cuCtxGetDevice(CUdevice* device) {
  const Context* const context = CurrentContextOrNull();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (!context->active) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = context->device->ordinal;
  return CUDA_SUCCESS;
}

CUresult impl::cuCtxGetDevice_v2(CUdevice* device, CUcontext ctx) {
  Context* context = nullptr;
  if (const CUresult result = ContextOrCurrent(ctx, &context)) return result;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = context->device->ordinal;
  return CUDA_SUCCESS;
}

CUresult impl::cuCtxGetFlags(unsigned int* flags) {
  SIMCUDA_CURRENT(context);
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = context->primary ? context->device->primary_flags : context->flags;
  return CUDA_SUCCESS;
}

CUresult impl::cuCtxSetFlags(unsigned int flags) {
  SIMCUDA_CURRENT(context);
  if ((flags & ~kContextFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  (context->primary ? context->device->primary_flags : context->flags) = flags;
  return CUDA_SUCCESS;
}

CUresult impl::cuCtxGetId(CUcontext ctx, unsigned long long* ctxId) {
  Context* context = nullptr;
  if (const CUresult result = ContextOrCurrent(ctx, &context)) return result;
  if (ctxId == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *ctxId = context->id;
  return CUDA_SUCCESS;
}

CUresult impl::cuCtxGetApiVersion(CUcontext ctx, unsigned int* version) {
  Context* context = nullptr;
  if (const CUresult result = ContextOrCurrent(ctx, &context)) return result;
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = context->api_version;
  return CUDA_SUCCESS;
}

CUresult impl::cuCtxSynchronize() {
  SIMCUDA_CURRENT(context);
  if (const CUresult result = CheckContextUse(*context)) return result;
  State& state = State::Get();
  state.engine.WaitContext(*context);
  return AfterSynchronization(*context);
}

CUresult impl::cuCtxSynchronize_v2(CUcontext ctx) {
  Context* context = nullptr;
  if (const CUresult result = ContextOrCurrent(ctx, &context)) return result;
  if (const CUresult result = CheckContextUse(*context)) return result;
  State::Get().engine.WaitContext(*context);
  return AfterSynchronization(*context);
}

CUresult impl::cuCtxGetLimit(size_t* pvalue, CUlimit limit) {
  SIMCUDA_CURRENT(context);
  if (pvalue == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (limit < 0 || limit >= CU_LIMIT_MAX) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  const auto found = context->limits.find(limit);
  *pvalue = found == context->limits.end() ? DefaultLimit(limit) : found->second;
  return CUDA_SUCCESS;
}

CUresult impl::cuCtxSetLimit(CUlimit limit, size_t value) {
  SIMCUDA_CURRENT(context);
  if (limit < 0 || limit >= CU_LIMIT_MAX) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  context->limits[limit] = value;
  return CUDA_SUCCESS;
}

CUresult impl::cuCtxGetCacheConfig(CUfunc_cache* pconfig) {
  SIMCUDA_CURRENT(context);
  if (pconfig == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pconfig = context->cache_config;
  return CUDA_SUCCESS;
}

CUresult impl::cuCtxSetCacheConfig(CUfunc_cache config) {
  SIMCUDA_CURRENT(context);
  context->cache_config = config;
  return CUDA_SUCCESS;
}

CUresult impl::cuCtxGetSharedMemConfig(CUsharedconfig* pConfig) {
  SIMCUDA_CURRENT(context);
  if (pConfig == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pConfig = context->shared_config;
  return CUDA_SUCCESS;
}

CUresult impl::cuCtxSetSharedMemConfig(CUsharedconfig config) {
  SIMCUDA_CURRENT(context);
  context->shared_config = config;
  return CUDA_SUCCESS;
}

CUresult impl::cuCtxResetPersistingL2Cache() {
  SIMCUDA_CURRENT(context);
  return CUDA_SUCCESS;  // a hint about a cache: no visible effect
}

CUresult impl::cuCtxGetStreamPriorityRange(int* leastPriority, int* greatestPriority) {
  SIMCUDA_CURRENT(context);
  if (leastPriority != nullptr) *leastPriority = 0;
  if (greatestPriority != nullptr) *greatestPriority = -5;
  return CUDA_SUCCESS;
}

CUresult impl::cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int flags) {
  SIMCUDA_CURRENT(context);
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<Context> peer = State::Get().contexts.Find(peerContext);
  if (!peer || !peer->active) return CUDA_ERROR_INVALID_CONTEXT;
  if (peer->device == context->device) return CUDA_ERROR_INVALID_CONTEXT;
  if (!PeersPossible(*context->device, *peer->device)) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  return context->peers.insert(peerContext).second ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

CUresult impl::cuCtxDisablePeerAccess(CUcontext peerContext) {
  SIMCUDA_CURRENT(context);
  if (!State::Get().contexts.Find(peerContext)) return CUDA_ERROR_INVALID_CONTEXT;
  return context->peers.erase(peerContext) == 1 ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

}  // namespace simcuda
