#include "tools/cuheap/pool_mode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace cuheap::tools {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string Get(const PoolPlan& plan, const std::string& name) {
  for (const auto& [variable, value] : plan.variables) {
    if (variable == name) return value;
  }
  return "(not set)";
}

bool Says(const PoolPlan& plan, const std::string& text) {
  return std::any_of(plan.messages.begin(), plan.messages.end(),
                     [&](const std::string& message) { return message.find(text) != std::string::npos; });
}

TEST(PoolMode, OptionsArePartedOutsideOfBrackets) {
  EXPECT_THAT(SplitAllocatorOptions(""), IsEmpty());
  EXPECT_THAT(SplitAllocatorOptions(" , ,"), IsEmpty());
  EXPECT_THAT(SplitAllocatorOptions("a:1, b:[256:1,512:2,>:8] ,c:2"), ElementsAre("a:1", "b:[256:1,512:2,>:8]", "c:2"));
}

TEST(PoolMode, NothingSet) {
  const PoolPlan plan = PlanPool({"LANG=C"});
  EXPECT_EQ(Get(plan, "PYTORCH_CUDA_ALLOC_CONF"), "backend:cudaMallocAsync");
  EXPECT_EQ(Get(plan, "PYTORCH_ALLOC_CONF"), "(not set)");
  EXPECT_EQ(Get(plan, "XLA_PYTHON_CLIENT_ALLOCATOR"), "cuda_async");
  EXPECT_EQ(Get(plan, "XLA_PYTHON_CLIENT_PREALLOCATE"), "false");
  EXPECT_EQ(Get(plan, "TF_GPU_ALLOCATOR"), "cuda_malloc_async");
  ASSERT_EQ(plan.messages.size(), 1u);
  for (const char* gone : {"memory_snapshot", "MemPool", "reduce-overhead", "between processes"})
    EXPECT_THAT(plan.messages[0], HasSubstr(gone));
}

TEST(PoolMode, TheUsersOtherOptionsStay) {
  const PoolPlan plan =
      PlanPool({"PYTORCH_CUDA_ALLOC_CONF=pinned_use_cuda_host_register:True,expandable_segments:True,"
                "roundup_power2_divisions:[256:1,>:8],per_process_memory_fraction:0.5"});
  EXPECT_EQ(Get(plan, "PYTORCH_CUDA_ALLOC_CONF"),
            "backend:cudaMallocAsync,pinned_use_cuda_host_register:True,per_process_memory_fraction:0.5");
  EXPECT_TRUE(Says(plan, "expandable_segments:True,roundup_power2_divisions:[256:1,>:8]"));
}

TEST(PoolMode, ABackendIsReplacedNotRepeated) {
  EXPECT_EQ(Get(PlanPool({"PYTORCH_CUDA_ALLOC_CONF=backend:native"}), "PYTORCH_CUDA_ALLOC_CONF"),
            "backend:cudaMallocAsync");
  EXPECT_TRUE(Says(PlanPool({"PYTORCH_CUDA_ALLOC_CONF=backend:native"}), "backend:native"));
  const PoolPlan same = PlanPool({"PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync"});
  EXPECT_EQ(Get(same, "PYTORCH_CUDA_ALLOC_CONF"), "backend:cudaMallocAsync");
  EXPECT_EQ(same.messages.size(), 1u);
}

TEST(PoolMode, TheVariableThatWinsIsChanged) {
  const PoolPlan general = PlanPool({"PYTORCH_ALLOC_CONF=pinned_num_register_threads:4"});
  EXPECT_EQ(Get(general, "PYTORCH_ALLOC_CONF"), "backend:cudaMallocAsync,pinned_num_register_threads:4");
  EXPECT_EQ(Get(general, "PYTORCH_CUDA_ALLOC_CONF"), "(not set)");
  const PoolPlan both = PlanPool({"PYTORCH_ALLOC_CONF=a:1", "PYTORCH_CUDA_ALLOC_CONF=b:2"});
  EXPECT_EQ(Get(both, "PYTORCH_CUDA_ALLOC_CONF"), "backend:cudaMallocAsync,b:2");
  EXPECT_EQ(Get(both, "PYTORCH_ALLOC_CONF"), "(not set)");
  const PoolPlan empty = PlanPool({"PYTORCH_ALLOC_CONF=a:1", "PYTORCH_CUDA_ALLOC_CONF="});
  EXPECT_EQ(Get(empty, "PYTORCH_CUDA_ALLOC_CONF"), "backend:cudaMallocAsync,a:1");
}

TEST(PoolMode, WhatIsOverriddenIsSaid) {
  const PoolPlan plan = PlanPool({"XLA_PYTHON_CLIENT_ALLOCATOR=platform", "TF_GPU_ALLOCATOR=cuda_malloc_async"});
  EXPECT_TRUE(Says(plan, "XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async takes the place of platform"));
  EXPECT_FALSE(Says(plan, "TF_GPU_ALLOCATOR"));
}

}  // namespace
}  // namespace cuheap::tools
