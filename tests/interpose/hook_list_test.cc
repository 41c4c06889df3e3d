#include "interpose/hook_list.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace cuheap {
namespace {

TEST(HookList, EveryNameIsFoundAndOnlyExactly) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < kHookCount; ++i) {
    EXPECT_EQ(FindHook(kHooks[i].name), static_cast<HookId>(i)) << kHooks[i].name;
    EXPECT_TRUE(names.insert(kHooks[i].name).second) << kHooks[i].name;
  }
  // "cu" also begins the names of cudnn, cublas, cufft and the runtime; a prefix of a hooked name is another function.
  for (const char* other : {"", "cu", "cuMemAlloc", "cuMemAlloc_v", "cuMemAlloc_v22", "cudaMalloc", "cudnnCreate",
                            "cublasCreate_v2", "cuMemAlloc_v2 ", "CUMEMALLOC_V2", "zzz"}) {
    EXPECT_EQ(FindHook(other), HookId::kNone) << other;
  }
}

TEST(HookList, PerThreadVariantsAreKnownByTheirEnding) {
  EXPECT_TRUE(IsPerThread(HookId::cuMemcpyDtoH_v2_ptds));
  EXPECT_TRUE(IsPerThread(HookId::cuLaunchKernel_ptsz));
  EXPECT_FALSE(IsPerThread(HookId::cuLaunchKernel));
}

// Where a function has a variant for per-thread default streams, both are hooked, with the same effect: programs built
// with --default-stream per-thread call nothing else.
TEST(HookList, VariantsHaveTheSameEffect) {
  for (const HookDescription& hook : kHooks) {
    const std::string name = hook.name;
    if (!name.ends_with("_ptsz") && !name.ends_with("_ptds")) continue;
    const HookId plain = FindHook(name.substr(0, name.size() - 5).c_str());
    ASSERT_NE(plain, HookId::kNone) << name;
    EXPECT_EQ(kHooks[Index(plain)].effect, hook.effect) << name;
  }
}

}  // namespace
}  // namespace cuheap
