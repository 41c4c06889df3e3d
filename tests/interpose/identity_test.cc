// What memory says about itself, and what happens to blocks that the program shares.
#include "interpose/handlers_identity.h"
#include "tests/interpose/router_fixture.h"

namespace cuheap::testing {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

// The driver's answers for the segment that an address lies in, and for unknown addresses.
CUresult Attribute(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  if (FakeGetAddressRange(&base, &bytes, address) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<CUdeviceptr*>(value) = base;
      break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<std::size_t*>(value) = bytes;
      break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      *static_cast<unsigned long long*>(value) = 5;
      break;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      *static_cast<int*>(value) = 1;
      break;
    default:
      *static_cast<unsigned long long*>(value) = 99;
      break;
  }
  return CUDA_SUCCESS;
}

CUresult Attributes(unsigned int count, CUpointer_attribute* attributes, void** values, CUdeviceptr address) {
  for (unsigned int i = 0; i < count; ++i) {
    if (Attribute(values[i], attributes[i], address) != CUDA_SUCCESS) *static_cast<unsigned long long*>(values[i]) = 0;
  }
  return CUDA_SUCCESS;
}

class IdentityTest : public RouterTest {
 protected:
  template <class Value>
  CUresult Ask(CUpointer_attribute attribute, CUdeviceptr address, Value* value) {
    return Handler<Effect::kPointerAttribute>::Call(router(), HookId::cuPointerGetAttribute, Attribute,
                                                    static_cast<void*>(value), attribute, address);
  }
  CUresult Range(CUdeviceptr address, CUdeviceptr* base, std::size_t* bytes) {
    return Handler<Effect::kAddressRange>::Call(router(), HookId::cuMemGetAddressRange_v2, FakeGetAddressRange, base,
                                                bytes, address);
  }
  CUresult Export(CUdeviceptr address) {
    CUipcMemHandle handle;
    const auto real = +[](CUipcMemHandle*, CUdeviceptr asked) {
      CUdeviceptr base = 0;
      std::size_t bytes = 0;
      return FakeGetAddressRange(&base, &bytes, asked) == CUDA_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    };
    return Handler<Effect::kGetIpcHandle>::Call(router(), HookId::cuIpcGetMemHandle, real, &handle, address);
  }
};

TEST_F(IdentityTest, ARangeIsTheProgramsBlock) {
  MustAllocate(1000);
  const CUdeviceptr address = MustAllocate(1000);
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  EXPECT_EQ(Range(address + 999, &base, &bytes), CUDA_SUCCESS);
  EXPECT_EQ(base, address);
  EXPECT_EQ(bytes, 1000u);
  EXPECT_EQ(Range(address, nullptr, &bytes), CUDA_SUCCESS);
  EXPECT_EQ(Range(address, &base, nullptr), CUDA_SUCCESS);
}

TEST_F(IdentityTest, AFreedBlockIsUnknown) {
  const CUdeviceptr address = MustAllocate(1000);
  EXPECT_EQ(Free(address), CUDA_SUCCESS);
  CUdeviceptr base = 17;
  std::size_t bytes = 17;
  EXPECT_EQ(Range(address, &base, &bytes), CUDA_ERROR_NOT_FOUND);  // the driver's own answer for unknown addresses
  EXPECT_EQ(base, 17u);
  EXPECT_EQ(bytes, 17u);
  EXPECT_EQ(Ask(CU_POINTER_ATTRIBUTE_RANGE_SIZE, address, &bytes), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Export(address), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(IdentityTest, AttributesSpeakOfTheBlock) {
  MustAllocate(1000);
  const CUdeviceptr address = MustAllocate(1000);
  CUdeviceptr start = 0;
  std::size_t bytes = 0;
  unsigned long long first_id = 0;
  unsigned long long second_id = 0;
  int ipc = 0;
  unsigned long long other = 0;
  EXPECT_EQ(Ask(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address + 8, &start), CUDA_SUCCESS);
  EXPECT_EQ(start, address);
  EXPECT_EQ(Ask(CU_POINTER_ATTRIBUTE_RANGE_SIZE, address, &bytes), CUDA_SUCCESS);
  EXPECT_EQ(bytes, 1000u);
  EXPECT_EQ(Ask(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, address, &ipc), CUDA_SUCCESS);
  EXPECT_EQ(ipc, 1);
  EXPECT_EQ(Ask(CU_POINTER_ATTRIBUTE_CONTEXT, address, &other), CUDA_SUCCESS);
  EXPECT_EQ(other, 99u);  // the driver's
  EXPECT_EQ(Ask(CU_POINTER_ATTRIBUTE_BUFFER_ID, address, &first_id), CUDA_SUCCESS);
  // The id is an allocation's, not an address's: the same place gets another one.
  EXPECT_EQ(Free(address), CUDA_SUCCESS);
  EXPECT_EQ(Synchronize(), CUDA_SUCCESS);
  ASSERT_EQ(MustAllocate(1000), address);
  EXPECT_EQ(Ask(CU_POINTER_ATTRIBUTE_BUFFER_ID, address, &second_id), CUDA_SUCCESS);
  EXPECT_NE(first_id, second_id);
  EXPECT_NE(first_id & kOurBufferId, 0u);
}

TEST_F(IdentityTest, SeveralAttributesAreCorrectedOneByOne) {
  MustAllocate(1000);
  const CUdeviceptr address = MustAllocate(1000);
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  unsigned long long context = 0;
  std::size_t bytes = 0;
  void* values[] = {&context, &bytes};
  const auto ask = [&] {
    return Handler<Effect::kPointerAttributes>::Call(router(), HookId::cuPointerGetAttributes, Attributes, 2u,
                                                     attributes, values, address);
  };
  EXPECT_EQ(ask(), CUDA_SUCCESS);
  EXPECT_EQ(context, 99u);
  EXPECT_EQ(bytes, 1000u);
  EXPECT_EQ(Free(address), CUDA_SUCCESS);
  EXPECT_EQ(ask(), CUDA_SUCCESS);
  EXPECT_EQ(context, 0u);
  EXPECT_EQ(bytes, 0u);
}

TEST_F(IdentityTest, ALargeBlockHasAnIdOfItsOwnToo) {  // its segment is reused
  const CUdeviceptr address = MustAllocate(4 * kMiB);
  unsigned long long id = 0;
  int ipc = 0;
  EXPECT_EQ(Ask(CU_POINTER_ATTRIBUTE_BUFFER_ID, address, &id), CUDA_SUCCESS);
  EXPECT_GE(id, kOurBufferId);
  EXPECT_EQ(Ask(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, address, &ipc), CUDA_SUCCESS);
  EXPECT_EQ(ipc, 1);
}

TEST_F(IdentityTest, AnExportedBlockIsFreedByTheDriver) {
  const CUdeviceptr address = MustAllocate(4 * kMiB);
  EXPECT_EQ(Export(address), CUDA_SUCCESS);
  EXPECT_EQ(Free(address), CUDA_SUCCESS);
  EXPECT_EQ(Calls("cuMemFree"), 1);
  EXPECT_TRUE(recorder_.live.empty());
  EXPECT_EQ(Synchronize(), CUDA_SUCCESS);
  EXPECT_NE(MustAllocate(4 * kMiB), address);
}

TEST_F(IdentityTest, WithoutPackingSmallBlocksAreExportedToo) {
  options_.pack = false;
  EXPECT_EQ(Export(MustAllocate(1000)), CUDA_SUCCESS);
}

TEST_F(IdentityTest, AMarkedBlockIsNeverReused) {
  const CUdeviceptr address = MustAllocate(1000);
  const auto real = +[](const void*, CUpointer_attribute, CUdeviceptr) { return CUDA_SUCCESS; };
  const int on = 1;
  EXPECT_EQ(Handler<Effect::kSetPointerAttribute>::Call(router(), HookId::cuPointerSetAttribute, real,
                                                        static_cast<const void*>(&on), CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
                                                        address),
            CUDA_SUCCESS);
  EXPECT_EQ(Free(address), CUDA_SUCCESS);
  EXPECT_EQ(Synchronize(), CUDA_SUCCESS);
  EXPECT_NE(MustAllocate(1000), address);
}

TEST_F(IdentityTest, IdleMemoryCountsAsFree) {
  const CUdeviceptr address = MustAllocate(4 * kMiB);
  const auto real = +[](std::size_t* free_bytes, std::size_t* total) {
    *total = 100 * kMiB;
    *free_bytes = *total - FakeCuda::instance.load()->used;
    return CUDA_SUCCESS;
  };
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  const auto ask = [&] {
    return Handler<Effect::kMemoryInfo>::Call(router(), HookId::cuMemGetInfo_v2, real, &free_bytes, &total);
  };
  EXPECT_EQ(ask(), CUDA_SUCCESS);
  EXPECT_EQ(free_bytes, 96 * kMiB);
  EXPECT_EQ(Free(address), CUDA_SUCCESS);
  EXPECT_EQ(ask(), CUDA_SUCCESS);
  EXPECT_EQ(free_bytes, 100 * kMiB);
  EXPECT_EQ(total, 100 * kMiB);
}

}  // namespace
}  // namespace cuheap::testing
