#ifndef CUHEAP_TESTS_INTERPOSE_ROUTER_FIXTURE_H_
#define CUHEAP_TESTS_INTERPOSE_ROUTER_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "interpose/handlers.h"
#include "interpose/handlers_external.h"
#include "interpose/handlers_identity.h"
#include "interpose/handlers_memory.h"
#include "interpose/handlers_objects.h"
#include "interpose/handlers_streams.h"
#include "interpose/handlers_virtual.h"
#include "interpose/handlers_work.h"
#include "interpose/router.h"
#include "tests/interpose/fake_cuda.h"
#include "tests/interpose/fake_recorder.h"

namespace cuheap::testing {

inline const auto kGraph = reinterpret_cast<CUgraph>(0x61);

// A router over the fake driver; what a program would do through the hooks.
class RouterTest : public ::testing::Test {
 protected:
  RouterTest() {
    fake_recorder = &recorder_;
    options::ParseAll([](const char*) -> const char* { return nullptr; }, &options_);
    options_.sync_deadline_ms = 2000;
  }
  ~RouterTest() override {
    cuda_.ReleaseSynchronize();
    Retire();
  }
  // The helper's thread may still be in the router and the fakes: they stay, as in a process.
  void Retire() {
    if (router_ != nullptr) Retired().push_back(std::move(router_));
  }

  Router& router() {
    if (router_ == nullptr) router_ = std::make_unique<Router>(cuda_.Functions(), true, options_);
    return *router_;
  }

  CUresult Allocate(std::size_t bytes, CUdeviceptr* out) {
    return Handler<Effect::kAllocate>::Call(router(), HookId::cuMemAlloc_v2, FakeMemAlloc, out, bytes);
  }
  CUdeviceptr MustAllocate(std::size_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_EQ(Allocate(bytes, &address), CUDA_SUCCESS);
    return address;
  }
  CUresult Free(CUdeviceptr address) {
    return Handler<Effect::kFree>::Call(router(), HookId::cuMemFree_v2, FakeMemFree, address);
  }
  CUresult Synchronize() {
    return Handler<Effect::kSynchronizeContext>::Call(router(), HookId::cuCtxSynchronize, FakeSynchronize);
  }
  CUresult HostAlloc(std::size_t bytes, void** out) {
    return Handler<Effect::kAllocateHost>::Call(router(), HookId::cuMemHostAlloc, FakeMemHostAlloc, out, bytes, 0u);
  }
  // A forwarded call with the given result: a launch, as far as the router can tell.
  CUresult Launch(CUresult result) {
    next_launch = result;
    return Handler<Effect::kLaunch>::Call(router(), HookId::cuLaunchKernel, +[](int) { return next_launch; }, 0);
  }
  CUresult CopyToHost() {
    return Handler<Effect::kCopyToHostAsync>::Call(
        router(), HookId::cuMemcpyDtoHAsync_v2, +[](int) { return CUDA_SUCCESS; }, 0);
  }
  CUresult BeginCapture(CUstream stream) {
    return Handler<Effect::kBeginCapture>::Call(
        router(), HookId::cuStreamBeginCapture_v2, +[](CUstream, int) { return CUDA_SUCCESS; }, stream, 0);
  }
  CUresult EndCapture(CUstream stream, CUresult result = CUDA_SUCCESS) {
    next_launch = result;
    CUgraph graph = nullptr;
    const auto end = +[](CUstream, CUgraph* out) {
      *out = next_launch == CUDA_SUCCESS ? kGraph : nullptr;
      return next_launch;
    };
    return Handler<Effect::kEndCapture>::Call(router(), HookId::cuStreamEndCapture, end, stream, &graph);
  }

  static std::vector<std::unique_ptr<Router>>& Retired() {
    static auto& retired = *new std::vector<std::unique_ptr<Router>>();
    return retired;
  }
  template <class Fake>
  static Fake& Kept() {
    static auto& kept = *new std::vector<std::unique_ptr<Fake>>();
    return *kept.emplace_back(std::make_unique<Fake>());
  }

  static inline CUresult next_launch = CUDA_SUCCESS;
  FakeRecorder& recorder_ = Kept<FakeRecorder>();  // never destroyed, see Retire()
  FakeCuda& cuda_ = Kept<FakeCuda>();
  options::Options options_;
  std::unique_ptr<Router> router_;
};

inline const auto kStream = reinterpret_cast<CUstream>(0x51);

}  // namespace cuheap::testing

#endif  // CUHEAP_TESTS_INTERPOSE_ROUTER_FIXTURE_H_
