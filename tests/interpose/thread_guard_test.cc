// What of a call that comes in between is looked at, and when a handler's frees are made.
#include "interpose/thread_guard.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "interpose/late_frees.h"

namespace cuheap {
namespace {

const auto kFromProgram = [] { return false; };
const auto kFromDriver = [] { return true; };

TEST(ThreadGuardTest, WhatComesInBetween) {
  const ThreadGuard outer(kFromProgram);
  EXPECT_TRUE(outer.entered());
  EXPECT_TRUE(outer.outermost());
  EXPECT_FALSE(ThreadGuard(kFromProgram).entered()) << "locks of ours may be held";
  {
    DriverCall call;
    EXPECT_FALSE(ThreadGuard(kFromDriver).entered()) << "the driver calls itself";
    const ThreadGuard handler(kFromProgram);
    EXPECT_TRUE(handler.entered()) << "a signal handler";
    EXPECT_FALSE(handler.outermost());
    EXPECT_FALSE(ThreadGuard(kFromProgram).entered());
    call.Returned();
  }
  EXPECT_FALSE(ThreadGuard(kFromProgram).entered());
}

TEST(ThreadGuardTest, AnExceptionFromTheDriverIsToldFromOurs) {
  const ThreadGuard guard(kFromProgram);
  DriverCall::TakeUnwound();
  ProgramsCall<int (*)(int)> returns([](int value) { return value + 1; });
  EXPECT_EQ(returns(1), 2);
  EXPECT_FALSE(DriverCall::TakeUnwound());
  ProgramsCall<int (*)(int)> throws([](int value) -> int { throw value; });
  EXPECT_THROW(throws(1), int);
  EXPECT_TRUE(DriverCall::TakeUnwound());
  EXPECT_FALSE(DriverCall::TakeUnwound());
}

std::vector<std::pair<CUdeviceptr, CUstream>> g_made;
CUresult FreeNow(CUdeviceptr address) {
  // A handler comes in between.
  if (address == 2) {
    EXPECT_EQ(LateFrees::Add(&FreeNow, 3), CUDA_SUCCESS);
  }
  g_made.emplace_back(address, nullptr);
  return address == 3 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult FreeInStream(CUdeviceptr address, CUstream stream) {
  g_made.emplace_back(address, stream);
  return CUDA_SUCCESS;
}

TEST(LateFreesTest, AllAreMadeAndFailuresTold) {
  const auto stream = reinterpret_cast<CUstream>(0x10);
  EXPECT_FALSE(LateFrees::any());
  EXPECT_EQ(LateFrees::Add(&FreeNow, 2), CUDA_SUCCESS);
  EXPECT_EQ(LateFrees::Add(&FreeInStream, 1, stream), CUDA_SUCCESS);
  EXPECT_TRUE(LateFrees::any());
  std::vector<CUdeviceptr> failed;
  LateFrees::Make([&](CUdeviceptr address, CUresult) { failed.push_back(address); });
  EXPECT_FALSE(LateFrees::any());
  EXPECT_EQ(failed, std::vector<CUdeviceptr>{3});
  const std::vector<std::pair<CUdeviceptr, CUstream>> all = {{1, stream}, {2, nullptr}, {3, nullptr}};
  EXPECT_EQ(g_made, all);
}

TEST(LateFreesTest, AHandlerThatAsksForTooMuchIsToldSo) {
  int accepted = 0;
  while (LateFrees::Add(&FreeInStream, 1, nullptr) == CUDA_SUCCESS) ++accepted;
  EXPECT_GE(accepted, 8);
  EXPECT_EQ(LateFrees::Add(&FreeInStream, 1, nullptr), CUDA_ERROR_NOT_PERMITTED);
  LateFrees::Make([](CUdeviceptr, CUresult) {});
}

}  // namespace
}  // namespace cuheap
