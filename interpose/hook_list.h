// The hooked functions as compile-time tables, made from hooked_functions.inc.
#ifndef CUHEAP_INTERPOSE_HOOK_LIST_H_
#define CUHEAP_INTERPOSE_HOOK_LIST_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cuheap {

enum class Effect : std::uint8_t {
#define EFFECT(name, text) name,
#include "interpose/effects.inc"
#undef EFFECT
};

enum class HookId : std::uint16_t {
#define HOOK(name, version, effect) name,
#include "interpose/hooked_functions.inc"
#undef HOOK
  kNone,
};
inline constexpr std::size_t kHookCount = static_cast<std::size_t>(HookId::kNone);

struct HookDescription {
  const char* name;
  std::uint32_t version;
  Effect effect;
};
inline constexpr HookDescription kHooks[kHookCount] = {
#define HOOK(name, version, effect) {#name, version, Effect::effect},
#include "interpose/hooked_functions.inc"
#undef HOOK
};

constexpr std::size_t Index(HookId id) { return static_cast<std::size_t>(id); }
constexpr const char* Name(HookId id) { return kHooks[Index(id)].name; }

// The variant for per-thread default streams: there NULL means the calling thread's own stream.
constexpr bool IsPerThread(HookId id) {
  const std::string_view name = Name(id);
  return name.ends_with("_ptsz") || name.ends_with("_ptds");
}

// The hook with exactly this name, or kNone. No lock, no allocation, no call of anything: safe inside dlsym.
HookId FindHook(const char* name);

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_HOOK_LIST_H_
