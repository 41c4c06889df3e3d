// Handlers of work, waiting, capture and contexts: what the pool's rules need to know of them.
#ifndef CUHEAP_INTERPOSE_HANDLERS_WORK_H_
#define CUHEAP_INTERPOSE_HANDLERS_WORK_H_

#include <pthread.h>

#include <cstddef>
#include <cstdint>

#include "interpose/handlers.h"

namespace cuheap {

// ---- work that may write host memory after the call returned ----

struct HostWritingHandler {
  template <class Real, class... Args>
  static CUresult Call(Router& router, HookId, Real real, Args... args) {
    // Before the call: a synchronisation that begins in between does not cover it, and must not be taken for proof.
    router.barrier().HostWriteSubmitted();
    const CUresult result = router.ForwardWithRescue(real, args...);
    // After it as well: one that began before the submission, and ended after the first mark, proves nothing either.
    router.barrier().HostWriteSubmitted();
    return result;
  }
};

template <>
struct Handler<Effect::kCopyToHostAsync> {
  template <class Real, class... Args>
  static CUresult Call(Router& router, HookId id, Real real, Args... args) {
    if (!RangesAllowed(router, args...)) return router.RefuseRange();
    return HostWritingHandler::Call(router, id, real, args...);
  }
};
template <>
struct Handler<Effect::kHostFunction> : HostWritingHandler {};
template <>
struct Handler<Effect::kLaunchGraph> : HostWritingHandler {};

// ---- waiting ----

template <>
struct Handler<Effect::kSynchronizeContext> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real) {
    return router.ProgramSynchronizes(router.Where().context, [&] { return real(); });
  }
};

template <>
struct Handler<Effect::kSynchronizeGivenContext> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUcontext context) {
    const std::uint64_t which = context != nullptr ? AsNumber(context) : router.Where().context;
    return router.ProgramSynchronizes(which, [&] { return real(context); });
  }
};

// ---- capture ----

inline CaptureWatch::Key CaptureKey(HookId id, CUstream stream) {
  const bool own = stream == CU_STREAM_PER_THREAD || (stream == nullptr && IsPerThread(id));
  if (own) return {AsNumber(CU_STREAM_PER_THREAD), static_cast<std::uint64_t>(pthread_self())};
  return {AsNumber(stream), 0};
}

// The graph that a capture is begun into, if the call names one.
template <class... Rest>
std::uint64_t GraphOfBegin(CUgraph graph, Rest...) {
  return AsNumber(graph);
}
template <class... Rest>
std::uint64_t GraphOfBegin(Rest...) {
  return 0;
}

template <>
struct Handler<Effect::kBeginCapture> {
  template <class Real, class... Rest>
  static CUresult Call(Router& router, HookId id, Real real, CUstream stream, Rest... rest) {
    // Counted as open before it is: nothing of ours may run between the driver's begin and our knowing of it.
    const CaptureWatch::Key key = CaptureKey(id, stream);
    router.captures().Begun(key, GraphOfBegin(rest...));
    const CUresult result = router.Forward(real, stream, rest...);
    if (result != CUDA_SUCCESS) {
      router.captures().Ended(key);
    } else {
      recorder::Note(journal::NoteCode::kCapture,
                     "streams were captured: meanwhile nothing was served from the pool, and blocks freed then are "
                     "kept as long as the "
                     "graphs");
    }
    return result;
  }
};

template <>
struct Handler<Effect::kEndCapture> {
  template <class Real>
  static CUresult Call(Router& router, HookId id, Real real, CUstream stream, CUgraph* graph) {
    const CUresult result = router.Forward(real, stream, graph);
    bool over = result == CUDA_SUCCESS;
    if (!over) {  // most failures end the capture too; a wrong thread, for instance, does not
      CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
      over = router.CaptureStatus(id, stream, &status) == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_NONE;
    }
    if (over)
      router.CaptureOver(CaptureKey(id, stream), result, result == CUDA_SUCCESS && graph != nullptr ? *graph : nullptr);
    return result;
  }
};

// ---- contexts ----

template <>
struct Handler<Effect::kCreateContext> {
  template <class Real, class... Rest>
  static CUresult Call(Router& router, HookId, Real real, CUcontext* out, Rest... rest) {
    const CUresult result = router.ForwardWithRescue(real, out, rest...);
    if (result == CUDA_SUCCESS) router.ContextSeen(AsNumber(*out));
    return result;
  }
};

template <>
struct Handler<Effect::kRetainPrimary> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUcontext* out, CUdevice device) {
    const CUresult result = router.ForwardWithRescue(real, out, device);
    if (result == CUDA_SUCCESS) {
      router.contexts().PrimaryRetained(device, AsNumber(*out));
      router.ContextSeen(AsNumber(*out));
    }
    return result;
  }
};

// Resources of a green context are part of the device's, and who owns memory allocated there is not documented: such
// allocations go to the driver.
template <>
struct Handler<Effect::kGreenContext> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUcontext* out, CUgreenCtx green) {
    const CUresult result = router.Forward(real, out, green);
    if (result == CUDA_SUCCESS) {
      router.contexts().GreenSeen(AsNumber(*out));
      router.ContextSeen(AsNumber(*out));
    }
    return result;
  }
};

template <>
struct Handler<Effect::kDestroyContext> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUcontext context) {
    return router.ContextGoes(AsNumber(context), [&] { return real(context); });
  }
};

template <>
struct Handler<Effect::kAttachContext> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUcontext* out, unsigned int flags) {
    const CUresult result = router.Forward(real, out, flags);
    if (result == CUDA_SUCCESS) router.contexts().Attached(AsNumber(*out));
    return result;
  }
};

template <>
struct Handler<Effect::kDetachContext> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUcontext context) {
    if (router.contexts().HasOtherUses(AsNumber(context))) {
      const CUresult result = router.Forward(real, context);
      if (result == CUDA_SUCCESS) router.contexts().Detached(AsNumber(context));
      return result;
    }
    return router.ContextGoes(AsNumber(context), [&] { return real(context); });
  }
};

template <>
struct Handler<Effect::kResetPrimary> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUdevice device) {
    return router.ContextGoes(router.contexts().Primary(device), [&] { return real(device); });
  }
};

// "The context is reset once the last reference to it is released." Source: cuDevicePrimaryCtxRelease.
template <>
struct Handler<Effect::kReleasePrimary> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUdevice device) {
    return router.ContextGoes(
        router.contexts().Primary(device), [&] { return real(device); }, /*only_if_inactive=*/true, device);
  }
};

template <>
struct Handler<Effect::kEnablePeers> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUcontext peer, unsigned int flags) {
    router.ContextSeen(AsNumber(peer));
    // Before: once the driver allows it, work of the peer may use any block of ours.
    if (router.pool() != nullptr) router.pool()->PeersEnabled();
    return router.ForwardWithRescue(real, peer, flags);
  }
};

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_HANDLERS_WORK_H_
