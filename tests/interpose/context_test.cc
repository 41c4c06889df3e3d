// Contexts that come and go, and handles of physical memory.
#include "interpose/context_book.h"
#include "interpose/import_book.h"
#include "interpose/physical_book.h"
#include "tests/interpose/router_fixture.h"

namespace cuheap::testing {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

class ContextTest : public RouterTest {
 protected:
  CUresult Destroy(CUresult result) {
    next_launch = result;
    return Handler<Effect::kDestroyContext>::Call(
        router(), HookId::cuCtxDestroy_v2, +[](CUcontext) { return next_launch; }, ContextHandle(0xC1));
  }
  CUresult RetainPrimary() {
    CUcontext context = nullptr;
    const auto real = +[](CUcontext* out, CUdevice) { return *out = ContextHandle(0xC1), CUDA_SUCCESS; };
    return Handler<Effect::kRetainPrimary>::Call(router(), HookId::cuDevicePrimaryCtxRetain, real, &context, 0);
  }
};

TEST_F(ContextTest, ADestroyedContextTakesItsBlocksWithIt) {
  const CUdeviceptr address = MustAllocate(64);
  EXPECT_EQ(Destroy(CUDA_SUCCESS), CUDA_SUCCESS);
  EXPECT_TRUE(recorder_.live.empty());
  EXPECT_FALSE(router().pool()->Owns(address));
  EXPECT_EQ(Calls("cuMemFree"), 0);
  EXPECT_EQ(Free(address), CUDA_SUCCESS);  // the driver's to judge; this fake still has it
  EXPECT_EQ(Calls("cuMemFree"), 1);
}

TEST_F(ContextTest, AFailedDestructionChangesNothing) {
  const CUdeviceptr address = MustAllocate(64);
  EXPECT_EQ(Destroy(CUDA_ERROR_INVALID_CONTEXT), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(recorder_.live.size(), 1u);
  EXPECT_TRUE(router().pool()->Owns(address));
}

TEST_F(ContextTest, OnlyTheLastReleaseEndsThePrimaryContext) {
  EXPECT_EQ(RetainPrimary(), CUDA_SUCCESS);
  MustAllocate(64);
  const auto release = +[](CUdevice) { return CUDA_SUCCESS; };
  cuda_.primary_active = 1;
  EXPECT_EQ(Handler<Effect::kReleasePrimary>::Call(router(), HookId::cuDevicePrimaryCtxRelease_v2, release, 0),
            CUDA_SUCCESS);
  EXPECT_EQ(recorder_.live.size(), 1u);
  cuda_.primary_active = 0;
  EXPECT_EQ(Handler<Effect::kReleasePrimary>::Call(router(), HookId::cuDevicePrimaryCtxRelease_v2, release, 0),
            CUDA_SUCCESS);
  EXPECT_TRUE(recorder_.live.empty());
}

TEST_F(ContextTest, AResetEndsThePrimaryContextAtOnce) {
  EXPECT_EQ(RetainPrimary(), CUDA_SUCCESS);
  MustAllocate(64);
  cuda_.primary_active = 1;
  const auto reset = +[](CUdevice) { return CUDA_SUCCESS; };
  EXPECT_EQ(Handler<Effect::kResetPrimary>::Call(router(), HookId::cuDevicePrimaryCtxReset_v2, reset, 0), CUDA_SUCCESS);
  EXPECT_TRUE(recorder_.live.empty());
}

TEST_F(ContextTest, AnAttachedContextOutlivesADetach) {
  MustAllocate(64);
  CUcontext context = nullptr;
  const auto attach = +[](CUcontext* out, unsigned int) { return *out = ContextHandle(0xC1), CUDA_SUCCESS; };
  const auto detach = +[](CUcontext) { return CUDA_SUCCESS; };
  EXPECT_EQ(Handler<Effect::kAttachContext>::Call(router(), HookId::cuCtxAttach, attach, &context, 0u), CUDA_SUCCESS);
  EXPECT_EQ(Handler<Effect::kDetachContext>::Call(router(), HookId::cuCtxDetach, detach, context), CUDA_SUCCESS);
  EXPECT_EQ(recorder_.live.size(), 1u);
  EXPECT_EQ(Handler<Effect::kDetachContext>::Call(router(), HookId::cuCtxDetach, detach, context), CUDA_SUCCESS);
  EXPECT_TRUE(recorder_.live.empty());
}

TEST_F(ContextTest, AGreenContextIsNotServed) {
  CUcontext context = nullptr;
  const auto green = +[](CUcontext* out, CUgreenCtx) { return *out = ContextHandle(0xC9), CUDA_SUCCESS; };
  EXPECT_EQ(Handler<Effect::kGreenContext>::Call(router(), HookId::cuCtxFromGreenCtx, green, &context, nullptr),
            CUDA_SUCCESS);
  cuda_.current = ContextHandle(0xC9);
  EXPECT_EQ(recorder_.live[MustAllocate(64)].flags, 0);
}

TEST_F(ContextTest, WithTwoContextsBothMustBeSynchronised) {
  const CUdeviceptr address = MustAllocate(4 * kMiB);
  cuda_.current = ContextHandle(0xC2);
  MustAllocate(64);
  cuda_.current = ContextHandle(0xC1);
  EXPECT_EQ(Free(address), CUDA_SUCCESS);
  EXPECT_EQ(Synchronize(), CUDA_SUCCESS);
  EXPECT_NE(MustAllocate(4 * kMiB), address);  // the other context could have used it
  cuda_.current = ContextHandle(0xC2);
  EXPECT_EQ(Synchronize(), CUDA_SUCCESS);
  cuda_.current = ContextHandle(0xC1);
  EXPECT_EQ(MustAllocate(4 * kMiB), address);
}

TEST(PhysicalBook, MemoryEndsWithItsLastHandleAndMapping) {
  PhysicalBook book;
  book.Created(7, journal::AllocationKind::kVirtual);
  book.Mapped(0x1000, 0x1000, 7);
  book.Mapped(0x3000, 0x1000, 7);
  EXPECT_FALSE(book.EndedByRelease(7));  // still mapped
  book.Released(7);
  EXPECT_TRUE(book.EndedByUnmap(0x1000, 0x1000).empty());
  book.Unmapped(0x1000, 0x1000);
  const auto ended = book.EndedByUnmap(0x2000, 0x2000);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].handle, 7u);
  EXPECT_EQ(ended[0].kind, journal::AllocationKind::kVirtual);
  book.Unmapped(0x2000, 0x2000);
  EXPECT_FALSE(book.EndedByRelease(7));  // gone
}

TEST(PhysicalBook, ARetainedHandleMustBeReleasedTwice) {
  PhysicalBook book;
  book.Created(7, journal::AllocationKind::kHostVirtual);
  book.Retained(7);
  EXPECT_FALSE(book.EndedByRelease(7));
  book.Released(7);
  ASSERT_TRUE(book.EndedByRelease(7));
  EXPECT_EQ(book.EndedByRelease(7)->kind, journal::AllocationKind::kHostVirtual);
}

TEST(PhysicalBook, OneUnmapMayEndSeveralMappingsOfAHandle) {
  PhysicalBook book;
  book.Created(7, journal::AllocationKind::kVirtual);
  book.Mapped(0x1000, 0x1000, 7);
  book.Mapped(0x2000, 0x1000, 7);
  book.Released(7);
  EXPECT_EQ(book.EndedByUnmap(0x1000, 0x2000).size(), 1u);
}

TEST(ImportBook, ClosesAreCounted) {
  ImportBook book;
  EXPECT_TRUE(book.Opened(5, 1));
  EXPECT_FALSE(book.Opened(5, 1));
  EXPECT_FALSE(book.EndedByClose(5));
  book.Closed(5);
  EXPECT_TRUE(book.EndedByClose(5));
  EXPECT_TRUE(book.EndedByClose(6));  // unknown: the driver's to judge
}

}  // namespace
}  // namespace cuheap::testing
