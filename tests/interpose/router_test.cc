// What is served and what is forwarded, in which order it is recorded, and when a free waits.
#include "interpose/router.h"

#include <chrono>
#include <future>
#include <thread>

#include "tests/interpose/router_fixture.h"

namespace cuheap::testing {
namespace {

using ::testing::ElementsAre;

constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST_F(RouterTest, ServesFromThePoolAndRecordsWhatTheBlockOccupies) {
  const CUdeviceptr address = MustAllocate(1000);
  EXPECT_EQ(Calls("cuMemAlloc"), 1);
  const CUdeviceptr other = MustAllocate(1000);
  EXPECT_EQ(Calls("cuMemAlloc"), 1);  // one segment holds both
  EXPECT_NE(address, other);
  ASSERT_TRUE(recorder_.live.contains(address));
  const recorder::Allocation& recorded = recorder_.live[address];
  EXPECT_EQ(recorded.bytes, 1000u);
  EXPECT_GE(recorded.reserved_bytes, 1000u);
  EXPECT_EQ(recorded.flags, journal::kServedFromPool);
  EXPECT_EQ(recorded.context, 0xC1u);
  EXPECT_EQ(recorded.device, 0u);
  EXPECT_EQ(recorded.stack, 7u);
}

// Only what reaches the driver has its time taken, once, whatever happens inside.
TEST_F(RouterTest, TheTimeOfDriverCallsIsTaken) {
  using journal::DriverCall;
  const CUdeviceptr first = MustAllocate(1000);
  EXPECT_EQ(recorder_.driver_calls[DriverCall::kAllocate], 1u);
  MustAllocate(1000);
  Free(first);
  EXPECT_EQ(recorder_.driver_calls[DriverCall::kAllocate], 1u) << "served";
  EXPECT_EQ(recorder_.driver_calls[DriverCall::kFree], 0u);
  recorder_.caller_is_pytorch = true;
  EXPECT_EQ(Free(MustAllocate(2 * kMiB)), CUDA_SUCCESS);
  EXPECT_EQ(recorder_.driver_calls[DriverCall::kAllocate], 2u) << "forwarded";
  EXPECT_EQ(recorder_.driver_calls[DriverCall::kFree], 1u);
}

TEST_F(RouterTest, TheTimeOfAWaitInAFreeIsTaken) {
  options_.free_barrier = options::Barrier::kAlways;
  EXPECT_EQ(Free(MustAllocate(64)), CUDA_SUCCESS);
  EXPECT_EQ(recorder_.driver_calls[journal::DriverCall::kFreeWait], 1u);
  EXPECT_EQ(recorder_.driver_calls[journal::DriverCall::kPoolWait], 0u);
}

TEST_F(RouterTest, ForwardsWhatTheNativeCallWouldRefuse) {
  CUdeviceptr address = 42;
  EXPECT_EQ(Allocate(0, &address), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Allocate(64, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(address, 42u);
  EXPECT_EQ(Calls("cuMemAlloc"), 2);
  EXPECT_EQ(recorder_.failures.size(), 2u);
  EXPECT_TRUE(recorder_.live.empty());
}

TEST_F(RouterTest, ForwardsWithoutAValidCurrentContext) {
  CUdeviceptr address = 0;
  cuda_.current = nullptr;
  EXPECT_EQ(Allocate(64, &address), CUDA_SUCCESS);  // whatever the driver says
  cuda_.current = ContextHandle(0xC1);
  cuda_.context_error = CUDA_ERROR_CONTEXT_IS_DESTROYED;
  EXPECT_EQ(Allocate(64, &address), CUDA_SUCCESS);
  EXPECT_EQ(Calls("cuMemAlloc"), 2);
  EXPECT_EQ(recorder_.live[address].flags, 0);
}

TEST_F(RouterTest, ForwardsForPyTorchsOwnCache) {
  recorder_.caller_is_pytorch = true;
  const CUdeviceptr address = MustAllocate(2 * kMiB);
  EXPECT_EQ(recorder_.live[address].flags, journal::kCallerIsPyTorch);
  EXPECT_EQ(Free(address), CUDA_SUCCESS);
  EXPECT_EQ(Calls("cuMemFree"), 1);
}

TEST_F(RouterTest, ObserveModeForwardsCallForCall) {
  options_.mode = options::Mode::kObserve;
  const CUdeviceptr address = MustAllocate(1000);
  EXPECT_EQ(Synchronize(), CUDA_SUCCESS);
  EXPECT_EQ(Free(address), CUDA_SUCCESS);
  EXPECT_EQ(Free(address), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(router().pool(), nullptr);
  EXPECT_THAT(recorder_.log, ElementsAre("cuMemAlloc", "Allocated", "cuCtxSynchronize", "Synchronized", "Freeing",
                                         "cuMemFree", "Freeing", "cuMemFree", "FreeFailed"));
}

TEST_F(RouterTest, WithoutARequiredFunctionNothingIsServed) {
  router_ = std::make_unique<Router>(cuda_.Functions(), /*complete=*/false, options_);
  EXPECT_EQ(router().pool(), nullptr);
}

TEST_F(RouterTest, AFreedBlockIsReusedAfterASynchronisationBegunLater) {
  const CUdeviceptr address = MustAllocate(4 * kMiB);
  EXPECT_EQ(Free(address), CUDA_SUCCESS);
  EXPECT_EQ(Calls("cuMemFree"), 0);
  EXPECT_NE(MustAllocate(4 * kMiB), address);  // nothing has proven it unused
  EXPECT_EQ(Synchronize(), CUDA_SUCCESS);
  EXPECT_EQ(MustAllocate(4 * kMiB), address);
  EXPECT_EQ(recorder_.counters[journal::Counter::kPoolHits], 1u);
}

TEST_F(RouterTest, AFailedSynchronisationProvesNothing) {
  const CUdeviceptr address = MustAllocate(4 * kMiB);
  EXPECT_EQ(Free(address), CUDA_SUCCESS);
  cuda_.synchronize_result = CUDA_ERROR_NOT_PERMITTED;
  EXPECT_EQ(Synchronize(), CUDA_ERROR_NOT_PERMITTED);
  EXPECT_NE(MustAllocate(4 * kMiB), address);
  EXPECT_EQ(Calls("Synchronized"), 0);
}

TEST_F(RouterTest, WrongFreesFailAsTheNativeOnesDo) {
  const CUdeviceptr address = MustAllocate(4096);
  EXPECT_EQ(Free(address + 512), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(recorder_.live.size(), 1u);
  EXPECT_EQ(Free(address), CUDA_SUCCESS);
  EXPECT_EQ(Free(address), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Calls("cuMemFree"), 0);
  EXPECT_EQ(Free(0x1234), CUDA_ERROR_INVALID_VALUE);  // the driver's to judge
  EXPECT_EQ(Free(0), CUDA_SUCCESS);
  EXPECT_EQ(Calls("cuMemFree"), 2);
  EXPECT_TRUE(recorder_.live.empty());
}

TEST_F(RouterTest, AFreeNeedsACurrentContext) {
  const CUdeviceptr address = MustAllocate(4096);
  cuda_.current = nullptr;
  EXPECT_EQ(Free(address), CUDA_ERROR_INVALID_CONTEXT);
  cuda_.current = ContextHandle(0xC1);
  cuda_.context_error = CUDA_ERROR_CONTEXT_IS_DESTROYED;
  EXPECT_EQ(Free(address), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  cuda_.context_error = CUDA_SUCCESS;
  EXPECT_EQ(recorder_.live.size(), 1u);
  EXPECT_EQ(Free(address), CUDA_SUCCESS);
}

TEST_F(RouterTest, AForwardedFreeIsRecordedBeforeAndTakenBackOnFailure) {
  void* pinned = nullptr;
  EXPECT_EQ(HostAlloc(64, &pinned), CUDA_SUCCESS);
  const auto refuse = +[](void*) { return fake_recorder.load()->Append("cuMemFreeHost"), CUDA_ERROR_INVALID_CONTEXT; };
  recorder_.log.clear();
  EXPECT_EQ(Handler<Effect::kFreeHost>::Call(router(), HookId::cuMemFreeHost, refuse, pinned),
            CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_THAT(recorder_.log, ElementsAre("Freeing", "cuMemFreeHost", "FreeFailed"));
  EXPECT_EQ(recorder_.live.size(), 1u);
}

// ---- the barrier of a free ----

TEST_F(RouterTest, AFreeWaitsOnlyWhileHostMemoryMayStillBeWritten) {
  const CUdeviceptr first = MustAllocate(64);
  const CUdeviceptr second = MustAllocate(64);
  const CUdeviceptr third = MustAllocate(64);
  const CUdeviceptr fourth = MustAllocate(64);
  EXPECT_EQ(Free(first), CUDA_SUCCESS);
  EXPECT_EQ(Calls("cuCtxSynchronize"), 0);
  EXPECT_EQ(CopyToHost(), CUDA_SUCCESS);
  EXPECT_EQ(Free(second), CUDA_SUCCESS);
  EXPECT_EQ(Calls("cuCtxSynchronize"), 1);
  EXPECT_EQ(Free(third), CUDA_SUCCESS);
  EXPECT_EQ(Calls("cuCtxSynchronize"), 1);  // the barrier proved it
  EXPECT_EQ(CopyToHost(), CUDA_SUCCESS);
  EXPECT_EQ(Synchronize(), CUDA_SUCCESS);
  EXPECT_EQ(Free(fourth), CUDA_SUCCESS);
  EXPECT_EQ(Calls("cuCtxSynchronize"), 2);  // so did the program's
}

TEST_F(RouterTest, WithPinnedMemoryEveryFreeWaits) {
  void* pinned = nullptr;
  EXPECT_EQ(HostAlloc(64, &pinned), CUDA_SUCCESS);
  const CUdeviceptr first = MustAllocate(64);
  const CUdeviceptr second = MustAllocate(64);
  EXPECT_EQ(Free(first), CUDA_SUCCESS);
  EXPECT_EQ(Calls("cuCtxSynchronize"), 1);
  const auto free_host = +[](void*) { return CUDA_SUCCESS; };
  EXPECT_EQ(Handler<Effect::kFreeHost>::Call(router(), HookId::cuMemFreeHost, free_host, pinned), CUDA_SUCCESS);
  EXPECT_EQ(Free(second), CUDA_SUCCESS);
  EXPECT_EQ(Calls("cuCtxSynchronize"), 1);
}

CUresult GetGlobal(CUdeviceptr* out, std::size_t*, CUmodule, const char*) {
  *out = 0x7000;
  return CUDA_SUCCESS;
}

TEST_F(RouterTest, FromTheFirstManagedVariableOnEveryFreeWaits) {
  const auto ask = [this] {
    CUdeviceptr variable = 0;
    return Handler<Effect::kGetVariable>::Call(router(), HookId::cuModuleGetGlobal_v2, GetGlobal, &variable,
                                               static_cast<std::size_t*>(nullptr), static_cast<CUmodule>(nullptr), "v");
  };
  EXPECT_EQ(ask(), CUDA_SUCCESS);
  EXPECT_EQ(Free(MustAllocate(64)), CUDA_SUCCESS);
  EXPECT_EQ(Calls("cuCtxSynchronize"), 0);  // it is the device's
  cuda_.variable_is_managed = true;
  EXPECT_EQ(ask(), CUDA_SUCCESS);
  EXPECT_EQ(ask(), CUDA_SUCCESS);
  EXPECT_EQ(Calls("cuPointerGetAttribute"), 2);
  for (int frees = 1; frees <= 2; ++frees) {
    EXPECT_EQ(Free(MustAllocate(64)), CUDA_SUCCESS);
    EXPECT_EQ(Calls("cuCtxSynchronize"), frees);
  }
}

TEST_F(RouterTest, WithAPoolOfHostOrManagedMemoryEveryFreeWaits) {
  const auto create = [this](CUmemLocationType place, CUmemAllocationType type) {
    CUmemoryPool pool = nullptr;
    CUmemPoolProps properties = {};
    properties.location.type = place;
    properties.allocType = type;
    const auto real = +[](CUmemoryPool*, const CUmemPoolProps*) { return CUDA_SUCCESS; };
    return Handler<Effect::kCreatePool>::Call(router(), HookId::cuMemPoolCreate, real, &pool, &properties);
  };
  constexpr auto kPinned = CU_MEM_ALLOCATION_TYPE_PINNED;
  const std::pair<CUmemLocationType, CUmemAllocationType> kReadByTheHost[] = {
      {CU_MEM_LOCATION_TYPE_HOST, kPinned},
      {CU_MEM_LOCATION_TYPE_HOST_NUMA, kPinned},
      {CU_MEM_LOCATION_TYPE_DEVICE, static_cast<CUmemAllocationType>(kPinned + 1)}};  // managed, since CUDA 13
  int waits = 0;
  for (const auto& [place, type] : kReadByTheHost) {
    EXPECT_EQ(create(CU_MEM_LOCATION_TYPE_DEVICE, kPinned), CUDA_SUCCESS);
    EXPECT_EQ(Free(MustAllocate(64)), CUDA_SUCCESS);
    EXPECT_EQ(Calls("cuCtxSynchronize"), waits);
    EXPECT_EQ(create(place, type), CUDA_SUCCESS);
    EXPECT_EQ(Free(MustAllocate(64)), CUDA_SUCCESS);
    EXPECT_EQ(Calls("cuCtxSynchronize"), ++waits);
    Retire();
  }
}

TEST_F(RouterTest, TheBarrierCanBeForcedOrForbidden) {
  options_.free_barrier = options::Barrier::kAlways;
  EXPECT_EQ(Free(MustAllocate(64)), CUDA_SUCCESS);
  EXPECT_EQ(Calls("cuCtxSynchronize"), 1);
  Retire();
  options_.free_barrier = options::Barrier::kNever;
  options_.quarantine_limit = 0;
  EXPECT_EQ(CopyToHost(), CUDA_SUCCESS);
  EXPECT_EQ(Free(MustAllocate(64)), CUDA_SUCCESS);
  EXPECT_EQ(Calls("cuCtxSynchronize"), 1);
}

TEST_F(RouterTest, AFullQuarantineMakesAFreeWait) {
  options_.quarantine_limit = 4 * kMiB;
  const CUdeviceptr first = MustAllocate(4 * kMiB);
  const CUdeviceptr second = MustAllocate(4 * kMiB);
  EXPECT_EQ(Free(first), CUDA_SUCCESS);
  EXPECT_EQ(Calls("cuCtxSynchronize"), 0);
  EXPECT_EQ(Free(second), CUDA_SUCCESS);
  EXPECT_EQ(Calls("cuCtxSynchronize"), 1);
}

TEST_F(RouterTest, AFreeTellsTheErrorThatItsBarrierFound) {
  const CUdeviceptr address = MustAllocate(64);
  EXPECT_EQ(CopyToHost(), CUDA_SUCCESS);
  cuda_.synchronize_result = CUDA_ERROR_ILLEGAL_ADDRESS;
  EXPECT_EQ(Free(address), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_TRUE(router().passing_through());
}

TEST_F(RouterTest, TheBarrierWaitsInTheBlocksOwnContext) {
  options_.free_barrier = options::Barrier::kAlways;
  const CUdeviceptr address = MustAllocate(64);
  cuda_.current = ContextHandle(0xC2);
  EXPECT_EQ(Free(address), CUDA_SUCCESS);
  EXPECT_LT(Position("cuCtxPushCurrent"), Position("cuCtxSynchronize"));
  EXPECT_EQ(Calls("cuCtxPushCurrent"), 1);
}

// ---- errors after which all is forwarded ----

TEST_F(RouterTest, AFatalErrorEndsServingForGood) {
  const CUdeviceptr address = MustAllocate(64);
  EXPECT_EQ(Launch(CUDA_ERROR_ILLEGAL_ADDRESS), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_TRUE(recorder_.Noted(journal::NoteCode::kPassThrough));
  recorder_.log.clear();
  CUdeviceptr forwarded = 0;
  EXPECT_EQ(Allocate(64, &forwarded), CUDA_SUCCESS);
  EXPECT_EQ(Calls("cuMemAlloc"), 1);
  // The pool's block is still the pool's, and the device tells its error.
  cuda_.synchronize_result = CUDA_ERROR_ILLEGAL_ADDRESS;
  EXPECT_EQ(Free(address), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(Calls("cuMemFree"), 0);
  EXPECT_EQ(Free(forwarded), CUDA_SUCCESS);
  EXPECT_EQ(Calls("cuMemFree"), 1);
}

TEST_F(RouterTest, OtherErrorsEndNothing) {
  for (const CUresult harmless : {CUDA_ERROR_NOT_READY, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY,
                                  CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED}) {
    EXPECT_EQ(Launch(harmless), harmless);
  }
  EXPECT_FALSE(router().passing_through());
}

// ---- out of memory ----

TEST_F(RouterTest, AnyCallWithoutMemoryIsRetriedOnceTheCacheIsGivenBack) {
  cuda_.limit = 8 * kMiB;
  const CUdeviceptr address = MustAllocate(6 * kMiB);
  EXPECT_EQ(Free(address), CUDA_SUCCESS);
  void* pinned = nullptr;
  EXPECT_EQ(HostAlloc(4 * kMiB, &pinned), CUDA_SUCCESS);
  EXPECT_EQ(Calls("cuMemHostAlloc"), 2);
  EXPECT_EQ(Calls("cuMemFree"), 1);
  EXPECT_EQ(recorder_.counters[journal::Counter::kOutOfMemoryRescues], 1u);
  // Nothing left to give: the driver's error, after one more call, since what another thread gave back may have come
  // after the first.
  EXPECT_EQ(HostAlloc(6 * kMiB, &pinned), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(Calls("cuMemHostAlloc"), 4);
  EXPECT_EQ(recorder_.failures.size(), 1u);
  EXPECT_EQ(recorder_.failures[0].first.bytes, 6 * kMiB);
}

TEST_F(RouterTest, DuringCaptureNothingIsGivenBack) {
  cuda_.limit = 8 * kMiB;
  EXPECT_EQ(Free(MustAllocate(6 * kMiB)), CUDA_SUCCESS);
  EXPECT_EQ(BeginCapture(kStream), CUDA_SUCCESS);
  void* pinned = nullptr;
  EXPECT_EQ(HostAlloc(4 * kMiB, &pinned), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(Calls("cuMemFree"), 0);
}

TEST_F(RouterTest, AMissSynchronisesBeforeTheProgramRunsOutOfMemory) {
  cuda_.limit = 4 * kMiB;
  const CUdeviceptr address = MustAllocate(4 * kMiB);
  EXPECT_EQ(Free(address), CUDA_SUCCESS);
  EXPECT_EQ(MustAllocate(4 * kMiB), address);
  EXPECT_EQ(Calls("cuCtxSynchronize"), 1);
}

TEST_F(RouterTest, AMissWaitsNoLongerThanTheDeadlineAndProfitsLater) {
  options_.sync_deadline_ms = 50;
  cuda_.limit = 4 * kMiB;
  const CUdeviceptr address = MustAllocate(4 * kMiB);
  EXPECT_EQ(Free(address), CUDA_SUCCESS);
  {
    const std::lock_guard lock(cuda_.mutex);
    cuda_.hold_synchronize = true;
  }
  CUdeviceptr other = 0;
  const auto began = std::chrono::steady_clock::now();
  // The quarantined block is the pool's to give back: its native free is legal at any time.
  EXPECT_EQ(Allocate(4 * kMiB, &other), CUDA_SUCCESS);
  EXPECT_NE(other, address);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(2));
  EXPECT_EQ(Calls("cuMemFree"), 1);
}

// ---- capture ----

TEST_F(RouterTest, WhileACaptureIsOpenNothingIsServedAndNothingIsReused) {
  const CUdeviceptr address = MustAllocate(4 * kMiB);
  EXPECT_EQ(BeginCapture(kStream), CUDA_SUCCESS);
  EXPECT_TRUE(recorder_.Noted(journal::NoteCode::kCapture));
  const CUdeviceptr forwarded = MustAllocate(64);
  EXPECT_EQ(recorder_.live[forwarded].flags, journal::kDuringCapture);
  EXPECT_EQ(CopyToHost(), CUDA_SUCCESS);
  EXPECT_EQ(Free(address), CUDA_SUCCESS);
  EXPECT_EQ(Calls("cuCtxSynchronize"), 0);
  EXPECT_EQ(EndCapture(kStream), CUDA_SUCCESS);
  EXPECT_EQ(Synchronize(), CUDA_SUCCESS);
  EXPECT_EQ(cuda_.retained_by, kGraph);
  EXPECT_NE(MustAllocate(4 * kMiB), address);  // the graph may still use it
  EXPECT_NE(recorder_.live.size(), 0u);
  cuda_.DestroyGraphs();
  EXPECT_NE(MustAllocate(4 * kMiB), address);  // nothing proves yet that its last launch is over
  EXPECT_EQ(Synchronize(), CUDA_SUCCESS);
  EXPECT_EQ(MustAllocate(4 * kMiB), address);
}

TEST_F(RouterTest, ACaptureThatFailsKeepsNothing) {
  const CUdeviceptr address = MustAllocate(64);
  EXPECT_EQ(BeginCapture(kStream), CUDA_SUCCESS);
  EXPECT_EQ(Free(address), CUDA_SUCCESS);
  EXPECT_EQ(EndCapture(kStream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_TRUE(cuda_.user_objects.empty());
  EXPECT_EQ(Synchronize(), CUDA_SUCCESS);
  EXPECT_EQ(MustAllocate(64), address);
}

TEST_F(RouterTest, WhatEachOfTwoCapturesMayUseWaitsForBoth) {
  const auto other = reinterpret_cast<CUstream>(0x52);
  const CUdeviceptr address = MustAllocate(64);
  EXPECT_EQ(BeginCapture(kStream), CUDA_SUCCESS);
  EXPECT_EQ(BeginCapture(other), CUDA_SUCCESS);
  EXPECT_EQ(Free(address), CUDA_SUCCESS);
  EXPECT_EQ(EndCapture(other, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(EndCapture(kStream), CUDA_SUCCESS);
  EXPECT_EQ(Synchronize(), CUDA_SUCCESS);
  EXPECT_NE(MustAllocate(64), address);
  cuda_.DestroyGraphs();
  EXPECT_EQ(Synchronize(), CUDA_SUCCESS);
  EXPECT_EQ(MustAllocate(64), address);
}

// Natively the memory is the device's again at the free.
TEST_F(RouterTest, WhatIsKeptForGraphsIsNoReasonToFail) {
  cuda_.limit = 8 * kMiB;
  const CUdeviceptr address = MustAllocate(6 * kMiB);
  EXPECT_EQ(BeginCapture(kStream), CUDA_SUCCESS);
  EXPECT_EQ(Free(address), CUDA_SUCCESS);
  EXPECT_EQ(EndCapture(kStream), CUDA_SUCCESS);
  EXPECT_EQ(router().IdleBytes(0), 6 * kMiB);
  void* pinned = nullptr;
  EXPECT_EQ(HostAlloc(4 * kMiB, &pinned), CUDA_SUCCESS);
  EXPECT_EQ(router().IdleBytes(0), 0u);
  cuda_.DestroyGraphs();  // too late, and harmless
}

// The native free is a call that capture may forbid to the thread: the block stays the program's.
TEST_F(RouterTest, AFreeDuringACaptureIsTheDriversToForbid) {
  const CUdeviceptr address = MustAllocate(64);
  EXPECT_EQ(BeginCapture(kStream), CUDA_SUCCESS);
  cuda_.memory_error = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  EXPECT_EQ(Free(address), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(recorder_.live.count(address), 1u);
  cuda_.memory_error = CUDA_SUCCESS;
  EXPECT_EQ(EndCapture(kStream), CUDA_SUCCESS);
  EXPECT_EQ(Free(address), CUDA_SUCCESS);
}

TEST_F(RouterTest, WithoutUserObjectsBlocksAreKeptForGood) {
  DriverFunctions old = cuda_.Functions();
  old.cuUserObjectCreate = nullptr;
  router_ = std::make_unique<Router>(old, true, options_);
  const CUdeviceptr address = MustAllocate(64);
  EXPECT_EQ(BeginCapture(kStream), CUDA_SUCCESS);
  EXPECT_EQ(Free(address), CUDA_SUCCESS);
  EXPECT_EQ(EndCapture(kStream), CUDA_SUCCESS);
  EXPECT_EQ(Synchronize(), CUDA_SUCCESS);
  EXPECT_NE(MustAllocate(64), address);
}

TEST_F(RouterTest, AFailedEndLeavesTheCaptureOpenIfTheDriverSaysSo) {
  EXPECT_EQ(BeginCapture(kStream), CUDA_SUCCESS);
  cuda_.capture_status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  EXPECT_EQ(EndCapture(kStream, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  EXPECT_TRUE(router().captures().AnyOpen());
  cuda_.capture_status = CU_STREAM_CAPTURE_STATUS_NONE;
  EXPECT_EQ(EndCapture(kStream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_FALSE(router().captures().AnyOpen());
}

TEST_F(RouterTest, ADestroyedStreamEndsItsCapture) {
  EXPECT_EQ(BeginCapture(kStream), CUDA_SUCCESS);
  const auto destroy = +[](CUstream) { return CUDA_SUCCESS; };
  EXPECT_EQ(Handler<Effect::kDestroyStream>::Call(router(), HookId::cuStreamDestroy_v2, destroy, kStream),
            CUDA_SUCCESS);
  EXPECT_FALSE(router().captures().AnyOpen());
}

}  // namespace
}  // namespace cuheap::testing
