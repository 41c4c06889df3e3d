// The wrappers behind the exported names: one template, instantiated from the list. They only find the real function,
// see whether this call is ours to look at, and hand both to the effect's handler.
#include <cxxabi.h>

#include <atomic>
#include <cstdint>
#include <utility>

#include "interpose/cuda_api.h"
#include "interpose/driver_table.h"
#include "interpose/handlers.h"
#include "interpose/handlers_external.h"
#include "interpose/handlers_identity.h"
#include "interpose/handlers_memory.h"
#include "interpose/handlers_objects.h"
#include "interpose/handlers_streams.h"
#include "interpose/handlers_virtual.h"
#include "interpose/handlers_work.h"
#include "interpose/late_frees.h"
#include "interpose/process.h"
#include "interpose/resolve.h"
#include "interpose/self_check.h"
#include "interpose/stacks/loaded_objects.h"
#include "interpose/thread_guard.h"

namespace cuheap {

// The self-check needs the driver awake: dladdr and notes only, no driver call.
template <>
struct Handler<Effect::kInitialize> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, unsigned int flags) {
    const CUresult result = router.Forward(real, flags);
    static constinit std::atomic<bool> checked{false};
    if (!checked.exchange(true, std::memory_order_relaxed)) SelfCheck(*DriverTable::Known());
    return result;
  }
};

namespace {

// A hooked name was bound to us though no driver is loaded: a weak reference, or a linker that was told to ignore it.
constexpr CUresult kNoDriver = CUDA_ERROR_NOT_INITIALIZED;
// The driver that is loaded lacks the function; natively the program would not have linked.
constexpr CUresult kNoFunction = CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER;

// By the loader's own table: a call from below is rare.
bool IsInDriver(const DriverTable& driver, const void* address) {
  stacks::LoadedObject itself, other;
  return stacks::FindLoadedObject(reinterpret_cast<std::uint64_t>(driver.Real(HookId::cuInit)), itself) &&
         stacks::FindLoadedObject(reinterpret_cast<std::uint64_t>(address), other) && itself.begin == other.begin;
}

template <HookId kId, class Function>
struct Entry;

template <HookId kId, class... Args>
struct Entry<kId, CUresult (*)(Args...)> {
  using Real = CUresult (*)(Args...);

  // Not noexcept: what the driver's callbacks throw, and the unwinding of a cancelled thread, pass through us as they
  // pass through the driver.
  static CUresult Call(Args... args) {
    const void* const caller = __builtin_return_address(0);
    const DriverTable* driver = DriverTable::Find();
    if (driver == nullptr) return kNoDriver;
    const Real real = reinterpret_cast<Real>(driver->Real(kId));
    if (real == nullptr) return kNoFunction;
    constexpr Effect kEffect = kHooks[Index(kId)].effect;
    const auto from_driver = [&] { return IsInDriver(*driver, caller); };
    const ThreadGuard guard(from_driver);
    if (!guard.entered()) {
      if constexpr (kEffect == Effect::kFree || kEffect == Effect::kFreeAsync) {
        if (!from_driver()) return LateFrees::Add(&Call, args...);
      }
      return real(args...);
    }
    if constexpr (kEffect == Effect::kResolve) {
      return ResolveThrough(real,
                            args...);  // makes nothing: also the very first call, in a process that goes no further
    } else {
      Router* router = EnterProcess(*driver);
      if (router == nullptr) return real(args...);
      const CUresult result =
          Guarded([&] { return Handler<kEffect>::Call(*router, kId, ProgramsCall<Real>(real), args...); });
      if (LateFrees::any() && guard.outermost()) [[unlikely]] {
        LateFrees::Make([](CUdeviceptr address, CUresult failure) {
          recorder::Note(journal::NoteCode::kSelfCheck, "a signal handler's free failed (a: address, b: error)",
                         address, static_cast<std::uint64_t>(failure));
        });
      }
      return result;
    }
  }

 private:
  // Our own books need host memory; a program built without exceptions must not see one.
  template <class Body>
  static CUresult Guarded(Body&& body) {
    try {
      return body();
    } catch (const abi::__forced_unwind&) {  // the thread is being cancelled
      throw;
    } catch (...) {
      if (DriverCall::TakeUnwound()) throw;
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
  }
};

}  // namespace

extern "C" {

#define HOOK(name, version, effect)                                                                        \
  [[gnu::visibility("hidden")]] extern decltype(&::name) const cuheap_wrapper_##name;                      \
  constinit decltype(&::name) const cuheap_wrapper_##name = &Entry<HookId::name, decltype(&::name)>::Call; \
  [[gnu::visibility("hidden")]] void cuheap_entry_##name();
#include "interpose/hooked_functions.inc"
#undef HOOK

}  // extern "C"

void* OurEntry(HookId id) {
  using AnyFunction = void (*)();
  static constexpr AnyFunction kEntries[kHookCount] = {
#define HOOK(name, version, effect) &cuheap_entry_##name,
#include "interpose/hooked_functions.inc"
#undef HOOK
  };
  return reinterpret_cast<void*>(kEntries[Index(id)]);
}

}  // namespace cuheap
