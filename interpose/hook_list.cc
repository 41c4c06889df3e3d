// Compiled without sanitizers, like the roads that use it: their runtimes call dlsym before they are ready.
#include "interpose/hook_list.h"

#include <algorithm>
#include <array>

namespace cuheap {
namespace {

constexpr std::array<std::uint16_t, kHookCount> SortedByName() {
  std::array<std::uint16_t, kHookCount> order{};
  for (std::size_t i = 0; i < kHookCount; ++i) order[i] = static_cast<std::uint16_t>(i);
  std::sort(order.begin(), order.end(), [](std::uint16_t a, std::uint16_t b) {
    return std::string_view(kHooks[a].name) < std::string_view(kHooks[b].name);
  });
  return order;
}

// As strcmp, which may itself be intercepted and not ready. Negative, 0 or positive.
int Compare(const char* a, const char* b) {
  while (*a != '\0' && *a == *b) ++a, ++b;
  return static_cast<unsigned char>(*a) - static_cast<unsigned char>(*b);
}

constexpr std::array<std::uint16_t, kHookCount> kSorted = SortedByName();
constexpr const std::uint16_t* kByName = kSorted.data();

}  // namespace

HookId FindHook(const char* name) {
  std::size_t begin = 0;
  std::size_t end = kHookCount;
  while (begin < end) {
    const std::size_t middle = begin + (end - begin) / 2;
    const int order = Compare(kHooks[kByName[middle]].name, name);
    if (order == 0) return static_cast<HookId>(kByName[middle]);
    if (order < 0) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return HookId::kNone;
}

}  // namespace cuheap
