// Handles of packed blocks for other processes, made and opened by two routers over the fake driver.
#include <fcntl.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <string>

#include "interpose/handlers_identity.h"
#include "interpose/handlers_memory.h"
#include "tests/interpose/router_fixture.h"

namespace cuheap::testing {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr unsigned kLazy = CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS;
constexpr CUdeviceptr kImported = 0x7e0000000000;  // where the fake driver maps what is opened

// What the fake driver was last asked.
CUdeviceptr asked_of = 0;
CUdeviceptr closed = 0;
CUipcMemHandle opened = {};

// A driver's handle: the address of the allocation.
CUresult FakeGetHandle(CUipcMemHandle* handle, CUdeviceptr address) {
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  if (handle == nullptr || FakeGetAddressRange(&base, &bytes, address) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_VALUE;
  asked_of = base;
  std::memset(handle, 0, sizeof(*handle));
  std::memcpy(handle, &base, sizeof(base));
  return CUDA_SUCCESS;
}
CUresult FakeOpen(CUdeviceptr* out, CUipcMemHandle handle, unsigned int) {
  opened = handle;
  CUdeviceptr base = 0;
  std::memcpy(&base, &handle, sizeof(base));
  if (FakeCuda::instance.load()->live.count(base) == 0) return CUDA_ERROR_INVALID_HANDLE;
  *out = kImported;
  return CUDA_SUCCESS;
}
CUresult FakeClose(CUdeviceptr address) {
  closed = address == kImported ? address : 0;
  return address == kImported ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult FakeImportedRange(CUdeviceptr* base, std::size_t* bytes, CUdeviceptr address) {
  if (address - kImported >= 2 * kMiB) return CUDA_ERROR_NOT_FOUND;
  *base = kImported;
  *bytes = 2 * kMiB;
  return CUDA_SUCCESS;
}

class IpcTest : public RouterTest {
 protected:
  CUipcMemHandle Export(CUdeviceptr address) {
    CUipcMemHandle handle = {};
    EXPECT_EQ(Handler<Effect::kGetIpcHandle>::Call(router(), HookId::cuIpcGetMemHandle, FakeGetHandle, &handle, address),
              CUDA_SUCCESS);
    return handle;
  }
  CUresult Open(const CUipcMemHandle& handle, CUdeviceptr* out) {
    return Handler<Effect::kOpenIpc>::Call(router(), HookId::cuIpcOpenMemHandle_v2, FakeOpen, out, handle, kLazy);
  }
  CUresult Close(CUdeviceptr address) {
    return Handler<Effect::kCloseIpc>::Call(router(), HookId::cuIpcCloseMemHandle, FakeClose, address);
  }
  CUresult Range(CUdeviceptr address, CUdeviceptr* base, std::size_t* bytes) {
    return Handler<Effect::kAddressRange>::Call(router(), HookId::cuMemGetAddressRange_v2, FakeImportedRange, base, bytes,
                                                address);
  }
  static bool Opens(const CUipcMemHandle& handle) {
    if (const auto ours = ipc::ParseHandle(handle)) return ipc::Resolve(*ours).has_value();
    return false;
  }
};

bool Equal(const CUipcMemHandle& a, const CUipcMemHandle& b) { return std::memcmp(&a, &b, sizeof(a)) == 0; }

TEST_F(IpcTest, AHandleLeadsToTheSlabAndThePlaceInIt) {
  const CUdeviceptr first = MustAllocate(1000), block = MustAllocate(1000);
  const CUipcMemHandle handle = Export(block + 30);
  EXPECT_EQ(asked_of, first);  // the driver is asked for the slab's
  const ipc::Handle ours = ipc::ParseHandle(handle).value();
  const ipc::SharedBlock shared = ipc::Resolve(ours).value();
  EXPECT_EQ(shared.offset, block - first);
  EXPECT_EQ(shared.bytes, 1000u);
  EXPECT_EQ(shared.segment_bytes, 2 * kMiB);
  CUipcMemHandle of_slab = {};
  FakeGetHandle(&of_slab, first);
  EXPECT_TRUE(Equal(shared.driver_handle, of_slab));
  EXPECT_TRUE(Equal(Export(block), handle));
  EXPECT_FALSE(Equal(Export(first), handle));
}

TEST_F(IpcTest, ALargeBlocksHandleIsTheDriversOwn) {
  const CUipcMemHandle handle = Export(MustAllocate(4 * kMiB));
  EXPECT_FALSE(ipc::ParseHandle(handle));
  EXPECT_FALSE(ipc::ParseHandle(CUipcMemHandle{}));
}

TEST_F(IpcTest, AnAlteredHandleIsNotOurs) {
  const CUipcMemHandle handle = Export(MustAllocate(1000));
  for (std::size_t byte = 0; byte < sizeof(handle); ++byte) {
    CUipcMemHandle altered = handle;
    altered.reserved[byte] = static_cast<char>(altered.reserved[byte] ^ 4);
    EXPECT_FALSE(Opens(altered)) << byte;
  }
}

TEST_F(IpcTest, AFreedBlockIsNeverReusedNorOpened) {
  const CUdeviceptr block = MustAllocate(1000);
  const CUipcMemHandle handle = Export(block);
  EXPECT_TRUE(Opens(handle));
  EXPECT_EQ(Free(block), CUDA_SUCCESS);
  EXPECT_FALSE(Opens(handle));
  EXPECT_EQ(Synchronize(), CUDA_SUCCESS);
  for (int i = 0; i < 3000; ++i) EXPECT_NE(MustAllocate(1000), block);
  EXPECT_EQ(Free(block), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(IpcTest, TheEndOfTheContextEndsItsHandles) {
  const CUipcMemHandle handle = Export(MustAllocate(1000));
  EXPECT_EQ(router().ContextGoes(0xC1, [] { return CUDA_SUCCESS; }), CUDA_SUCCESS);
  EXPECT_FALSE(Opens(handle));
}

TEST_F(IpcTest, AProgramThatClosesOurDescriptorEndsWhatWasExported) {
  const CUdeviceptr block = MustAllocate(1000);
  const CUipcMemHandle handle = Export(block);
  const ipc::Handle ours = ipc::ParseHandle(handle).value();
  EXPECT_GE(ours.descriptor, 100);
  close(ours.descriptor);
  EXPECT_FALSE(Opens(handle));
  // The number now is a pipe's: looking at it must not wait.
  int ends[2] = {-1, -1};
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(dup2(ends[0], ours.descriptor), ours.descriptor);
  EXPECT_FALSE(Opens(handle));
  const CUipcMemHandle anew = Export(block);
  EXPECT_TRUE(Opens(anew));
  EXPECT_FALSE(Equal(anew, handle));
  EXPECT_FALSE(Opens(handle));
  for (const int descriptor : {ends[0], ends[1], ours.descriptor}) close(descriptor);
  EXPECT_EQ(Free(block), CUDA_SUCCESS);
  EXPECT_FALSE(Opens(anew));
}

TEST_F(IpcTest, NobodyCutsTheTableShort) {
  const ipc::Handle ours = ipc::ParseHandle(Export(MustAllocate(1000))).value();
  const std::string path = "/proc/self/fd/" + std::to_string(ours.descriptor);
  const int other = open(path.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(other, 0);
  EXPECT_NE(ftruncate(other, 0), 0);
  close(other);
  EXPECT_TRUE(ipc::Resolve(ours).has_value());
}

TEST_F(IpcTest, ErrnoIsTheProgramsOwn) {
  const CUdeviceptr block = MustAllocate(1000);
  errno = 77;
  const CUipcMemHandle handle = Export(block);
  EXPECT_EQ(errno, 77);
  ipc::Handle ours = ipc::ParseHandle(handle).value();
  ours.process = 1 << 30;
  EXPECT_FALSE(ipc::Resolve(ours));
  EXPECT_EQ(errno, 77);
}

TEST_F(IpcTest, AnImporterSeesTheBlock) {
  const CUdeviceptr first = MustAllocate(1000), block = MustAllocate(1000);
  const CUipcMemHandle handle = Export(block);
  CUdeviceptr here = 0;
  ASSERT_EQ(Open(handle, &here), CUDA_SUCCESS);
  EXPECT_EQ(here, kImported + (block - first));
  EXPECT_FALSE(ipc::ParseHandle(opened));  // the driver got a handle of its own
  ASSERT_EQ(recorder_.live.count(here), 1u);
  EXPECT_EQ(recorder_.live[here].bytes, 1000u);
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  EXPECT_EQ(Range(here + 999, &base, &bytes), CUDA_SUCCESS);
  EXPECT_EQ(base, here);
  EXPECT_EQ(bytes, 1000u);
  // Its neighbours are nobody's here.
  EXPECT_EQ(Range(here + 1024, &base, &bytes), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(Range(kImported, &base, &bytes), CUDA_ERROR_NOT_FOUND);
}

TEST_F(IpcTest, EachOpeningIsClosed) {
  const CUdeviceptr first = MustAllocate(1000), block = MustAllocate(1000);
  const CUipcMemHandle handle = Export(block), of_first = Export(first);
  CUdeviceptr here = 0, again = 0, neighbour = 0;
  ASSERT_EQ(Open(handle, &here), CUDA_SUCCESS);
  ASSERT_EQ(Open(handle, &again), CUDA_SUCCESS);
  EXPECT_EQ(again, here);
  closed = 0;
  // The slab's own address was not opened yet.
  EXPECT_EQ(Close(kImported), CUDA_ERROR_INVALID_VALUE);
  EXPECT_NE(closed, kImported);
  EXPECT_EQ(Close(here + 8), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(Open(of_first, &neighbour), CUDA_SUCCESS);
  EXPECT_EQ(neighbour, kImported);
  EXPECT_EQ(Close(here), CUDA_SUCCESS);
  EXPECT_EQ(closed, kImported);
  EXPECT_TRUE(recorder_.live.count(here));
  EXPECT_EQ(Close(here), CUDA_SUCCESS);
  EXPECT_FALSE(recorder_.live.count(here));
  EXPECT_EQ(Close(here), CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  EXPECT_EQ(Range(neighbour, &base, &bytes), CUDA_SUCCESS);
  EXPECT_EQ(Close(neighbour), CUDA_SUCCESS);
  EXPECT_EQ(Range(neighbour, &base, &bytes), CUDA_SUCCESS);  // nothing of ours left there: the driver's answer
  EXPECT_EQ(bytes, 2 * kMiB);
}

TEST_F(IpcTest, WhatCannotBeResolvedIsTheDriversToAnswer) {
  const CUdeviceptr block = MustAllocate(1000);
  const CUipcMemHandle handle = Export(block);
  EXPECT_EQ(Free(block), CUDA_SUCCESS);
  CUdeviceptr here = 0;
  EXPECT_EQ(Open(handle, &here), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_TRUE(Equal(opened, handle));
}

ipc::Handle AHandle() {
  ipc::Handle handle;
  handle.process = 1;
  handle.entry = 5;
  handle.index = 3;
  handle.check = ipc::CheckOf(handle);
  return handle;
}

ipc::TableEntry AnEntry(std::uint64_t offset, std::uint64_t bytes) {
  ipc::TableEntry entry;
  entry.key = 5;
  entry.offset = offset;
  entry.bytes = bytes;
  entry.segment_bytes = 4096;
  entry.check = ipc::CheckOf(entry);
  return entry;
}

TEST(IpcEntryTest, WhatDoesNotFitIsNoBlock) {
  ipc::TableHeader header;
  header.entries = 4;
  const ipc::Handle handle = AHandle();
  EXPECT_TRUE(ipc::ReadEntry(handle, header, AnEntry(0, 4096)));
  EXPECT_TRUE(ipc::ReadEntry(handle, header, AnEntry(4095, 1)));
  EXPECT_FALSE(ipc::ReadEntry(handle, header, AnEntry(1, 4096)));
  EXPECT_FALSE(ipc::ReadEntry(handle, header, AnEntry(4096, 1)));
  EXPECT_FALSE(ipc::ReadEntry(handle, header, AnEntry(0, 0)));
  EXPECT_FALSE(ipc::ReadEntry(handle, header, AnEntry(8, ~std::uint64_t{0})));
  ipc::TableEntry torn = AnEntry(0, 8);
  torn.bytes = 16;
  EXPECT_FALSE(ipc::ReadEntry(handle, header, torn));
  // A table whose entry is again a handle of a table.
  ipc::TableEntry circle = AnEntry(0, 8);
  circle.driver_handle = std::bit_cast<CUipcMemHandle>(handle);
  circle.check = ipc::CheckOf(circle);
  EXPECT_FALSE(ipc::ReadEntry(handle, header, circle));
  header.entries = 3;
  EXPECT_FALSE(ipc::ReadEntry(handle, header, AnEntry(0, 8)));
  header.entries = 4;
  header.key.words[0] = 1;
  EXPECT_FALSE(ipc::ReadEntry(handle, header, AnEntry(0, 8)));
}

}  // namespace
}  // namespace cuheap::testing
