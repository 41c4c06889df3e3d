// Handlers of the driver's objects that are counted: how many were created, and how many of them destroyed. Their
// memory is the driver's own and is not seen.
#ifndef CUHEAP_INTERPOSE_HANDLERS_OBJECTS_H_
#define CUHEAP_INTERPOSE_HANDLERS_OBJECTS_H_

#include "interpose/handlers.h"
#include "interpose/recorder/recorder.h"

namespace cuheap {

template <journal::Counter kCounter>
struct CreationHandler {
  template <class Real, class... Args>
  static CUresult Call(Router& router, HookId, Real real, Args... args) {
    const CUresult result = router.ForwardWithRescue(real, args...);
    if (result == CUDA_SUCCESS) recorder::Count(kCounter);
    return result;
  }
};

template <>
struct Handler<Effect::kCreateStream> : CreationHandler<journal::Counter::kStreamsCreated> {};
template <>
struct Handler<Effect::kCreateEvent> : CreationHandler<journal::Counter::kEventsCreated> {};

// Streams are destroyed in handlers_streams.h.
template <>
struct Handler<Effect::kDestroyEvent> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUevent event) {
    const CUresult result = router.Forward(real, event);
    if (result == CUDA_SUCCESS) recorder::Count(journal::Counter::kEventsDestroyed);
    return result;
  }
};

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_HANDLERS_OBJECTS_H_
