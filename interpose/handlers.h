// One handler an effect: what happens in the hooked functions of that effect, with the real function as an argument.
//
// Call(router, id, real, arguments of the function...). The primary template forwards; the specialisations lie in
// handlers_memory.h (allocation and free), handlers_virtual.h (virtual memory management), handlers_external.h (memory of
// other interfaces), handlers_identity.h (what memory says about itself), handlers_work.h (work, waiting, capture, contexts).
#ifndef CUHEAP_INTERPOSE_HANDLERS_H_
#define CUHEAP_INTERPOSE_HANDLERS_H_

#include "interpose/hook_list.h"
#include "interpose/router.h"
#include "interpose/work_ranges.h"

namespace cuheap {

template <Effect kEffect>
struct Handler;

// Forwarded as they are: their failures may tell of earlier work, so a retry would prove nothing.
struct ForwardingHandler {
  template <class Real, class... Args>
  static CUresult Call(Router& router, HookId, Real real, Args... args) {
    return router.Forward(real, args...);
  }
};

// Forwarded, and retried after the pool gave memory back.
struct RescuingHandler {
  template <class Real, class... Args>
  static CUresult Call(Router& router, HookId, Real real, Args... args) {
    return router.ForwardWithRescue(real, args...);
  }
};

// The same for work on ranges of memory.
struct RangeHandler {
  template <class Real, class... Args>
  static CUresult Call(Router& router, HookId, Real real, Args... args) {
    if (!RangesAllowed(router, args...)) return router.RefuseRange();
    return router.ForwardWithRescue(real, args...);
  }
};

template <>
struct Handler<Effect::kWait> : ForwardingHandler {};
template <>
struct Handler<Effect::kOrder> : ForwardingHandler {};
template <>
struct Handler<Effect::kMayNeedMemory> : RescuingHandler {};
template <>
struct Handler<Effect::kLaunch> : RescuingHandler {};
template <>
struct Handler<Effect::kCopy> : RangeHandler {};
template <>
struct Handler<Effect::kFill> : RangeHandler {};
template <>
struct Handler<Effect::kStreamMemory> : RescuingHandler {};

inline std::uint64_t AsNumber(CUdeviceptr address) { return address; }
inline std::uint64_t AsNumber(const void* handle) { return reinterpret_cast<std::uint64_t>(handle); }

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_HANDLERS_H_
