// The roads that are look-ups: dlsym, dlvsym, and dlclose, which ends the life of modules.
//
// Order in each: the real resolver answers first, then the answer is replaced if it is the driver's function that the
// name says. A missing name stays missing, an unknown address is handed out as it is and reported.
#include <dlfcn.h>

#include <string_view>

#include "interpose/driver_table.h"
#include "interpose/holes.h"
#include "interpose/real_loader.h"
#include "interpose/recorder/recorder.h"
#include "interpose/self_check.h"

extern "C" {
[[gnu::visibility("hidden")]] void cuheap_entry_dlsym();
[[gnu::visibility("hidden")]] void cuheap_entry_dlvsym();
}

namespace cuheap {

constinit Holes holes;

namespace {

// In two registers: the answer, or where the assembly goes on with the program's own arguments.
struct Road {
  void* answer;
  void* go_on;
};

HookId HookNamed(const char* name) {
  if (name == nullptr || name[0] != 'c' || name[1] != 'u') return HookId::kNone;
  return FindHook(name);
}

// Whether the name is one of the loader's two look-ups. Without strcmp: a sanitizer's runtime asks us for that.
bool IsLookup(const char* name) {
  if (name == nullptr || name[0] != 'd' || name[1] != 'l') return false;
  const char* rest = name + 2;
  if (*rest == 'v') ++rest;
  return rest[0] == 's' && rest[1] == 'y' && rest[2] == 'm' && rest[3] == '\0';
}

// Look-ups that are themselves looked up (in a handle of the C library, or by version) would lead around us. Who gets
// ours gets the C library's all the same, one call later; so only the function that ours goes on to is replaced, which
// keeps out every interposer that comes after us, and never an answer of RTLD_NEXT, by which interposers find it.
void* SubstituteLookup(void* found) {
  if (found == nullptr) return nullptr;
  if (found == reinterpret_cast<void*>(RealDlsym())) return reinterpret_cast<void*>(&cuheap_entry_dlsym);
  if (found == reinterpret_cast<void*>(RealDlvsym())) return reinterpret_cast<void*>(&cuheap_entry_dlvsym);
  return found;
}

// What the program gets for a hooked name that the real resolver found at `real`.
void* Substitute(HookId id, void* real) {
  const DriverTable* driver = DriverTable::Find();
  if (driver != nullptr && driver->FindByAddress(real, id) != HookId::kNone) {
    return OurEntry(driver->FindByAddress(real, id));
  }
  holes.Add(id, real);
  return real;
}

// The search found our own export, which comes first in the global scope: what would it have found without us?
// Global scope: what comes after us. Otherwise the caller's own scope (it and what it needs), which dlsym would have
// searched next; asked through a handle of the caller, since the search itself would only find us again.
template <class Resolve>
void* WithoutUs(const char* name, void* caller, Resolve&& resolve) {
  void* real = resolve(RTLD_NEXT);
  if (real != nullptr || IsInMainProgram(caller)) return real;
  Dl_info object;
  if (dladdr(caller, &object) == 0 || object.dli_fname == nullptr) return nullptr;
  void* handle = dlopen(object.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (handle != nullptr) {
    real = RealDlsym()(handle, name);
    RealDlclose()(handle);
  }
  return real;
}

template <class Resolve>
Road Answer(HookId id, void* handle, void* caller, Resolve&& resolve) {
  void* found = resolve(handle);
  if (found != nullptr && IsOurs(found)) {
    void* real = WithoutUs(Name(id), caller, resolve);
    // Leaves dlerror's text of the miss, as the program would find it.
    if (real == nullptr) return {resolve(RTLD_NEXT), nullptr};
    found = real;
  }
  return {found == nullptr ? nullptr : Substitute(id, found), nullptr};
}

// RTLD_NEXT goes on in any case, but from the main program it would find our export where there is no driver at all.
template <class Resolve>
bool OnlyWeHaveIt(void* caller, Resolve&& resolve) {
  return IsInMainProgram(caller) && resolve(RTLD_NEXT) == nullptr;
}

}  // namespace

extern "C" {

Road cuheap_dlsym_road(void* handle, const char* name, void* caller) {
  const DlsymFunction real = RealDlsym();
  if (real == nullptr) return {nullptr, nullptr};
  if (handle != RTLD_NEXT && IsLookup(name)) return {SubstituteLookup(real(handle, name)), nullptr};
  const HookId id = HookNamed(name);
  if (id == HookId::kNone) return {nullptr, reinterpret_cast<void*>(real)};
  const auto resolve = [real, name](void* in) { return real(in, name); };
  if (handle == RTLD_NEXT && !OnlyWeHaveIt(caller, resolve)) return {nullptr, reinterpret_cast<void*>(real)};
  return Answer(id, handle, caller, resolve);
}

Road cuheap_dlvsym_road(void* handle, const char* name, const char* version, void* caller) {
  const DlvsymFunction real = RealDlvsym();
  if (real == nullptr) return {nullptr, nullptr};
  if (handle != RTLD_NEXT && IsLookup(name)) return {SubstituteLookup(real(handle, name, version)), nullptr};
  const HookId id = HookNamed(name);
  if (id == HookId::kNone) return {nullptr, reinterpret_cast<void*>(real)};
  const auto resolve = [real, name, version](void* in) { return real(in, name, version); };
  if (handle == RTLD_NEXT && !OnlyWeHaveIt(caller, resolve)) return {nullptr, reinterpret_cast<void*>(real)};
  return Answer(id, handle, caller, resolve);
}

// Before: so that no stack taken while the object goes names it as if it would stay. After: so that nothing learnt in
// between survives. dlclose does not look at its caller, so a call is as good as a jump here.
__attribute__((visibility("default"))) int dlclose(void* handle) noexcept {
  const DlcloseFunction real = RealDlclose();
  if (real == nullptr) return -1;
  LookBeforeClose(handle);
  recorder::ModulesChanged();
  const int result = real(handle);
  recorder::ModulesChanged();
  return result;
}

}  // extern "C"

}  // namespace cuheap
