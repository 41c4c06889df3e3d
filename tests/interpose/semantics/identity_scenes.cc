// What memory says about itself: ranges, attributes, ids, handles.
// Source: CUDA Driver API, Unified Addressing; Memory Management, cuMemGetAddressRange; Virtual Memory Management.
#include <algorithm>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "tests/interpose/semantics/scene.h"

namespace semantics {
namespace {

// What a block looked like when it was made; nothing of it is printed but in comparisons.
struct Known {
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  CUcontext context = nullptr;
  CUmemoryPool pool = nullptr;
};

unsigned long long Attribute(CUpointer_attribute attribute, CUdeviceptr address, CUresult* result) {
  unsigned long long value = 0;
  *result = cuPointerGetAttribute(&value, attribute, address);
  return value;
}

// The value in words that are the same on every run.
std::string Meaning(CUpointer_attribute attribute, unsigned long long value, const Known& known, CUdeviceptr address) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return value == reinterpret_cast<std::uintptr_t>(known.context) ? "current" : value == 0 ? "none" : "other";
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      return value == address ? "same" : value == 0 ? "none" : "other";
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return value == known.base ? "base" : "other";
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return value != 0 ? "some" : "none";
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return value == 0 ? "none" : value == reinterpret_cast<std::uintptr_t>(known.pool) ? "default" : "other";
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return "";  // whether a block that shares its segment is: the tests of IPC
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      return value <= known.base ? "before" : "other";
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      return value >= known.bytes ? "enough" : "less";
    default:
      return std::to_string(value);
  }
}

void ShowAttributes(const Known& known, CUdeviceptr address) {
  std::vector<CUpointer_attribute> all;
  for (int number = 0; number <= 23; ++number) {
    const auto attribute = static_cast<CUpointer_attribute>(number);  // NOLINT: 0 and 23 are none
    if (attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS) continue;       // deprecated: needs a module of the vendor's
    CUresult result = CUDA_SUCCESS;
    const unsigned long long value = Attribute(attribute, address, &result);
    Print("  attribute %d: %d %s", number, result,
          result == CUDA_SUCCESS ? Meaning(attribute, value, known, address).c_str() : "");
    if (number >= 1 && number <= CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR) all.push_back(attribute);
  }
  std::vector<unsigned long long> values(all.size());
  std::vector<void*> places;
  places.reserve(values.size());
  for (unsigned long long& value : values) places.push_back(&value);
  const auto count = static_cast<unsigned>(all.size());
  Print("  together: %d", cuPointerGetAttributes(count, all.data(), places.data(), address));
  for (std::size_t i = 0; i < all.size(); ++i) {
    Print("  attribute %d: %s", all[i], Meaning(all[i], values[i], known, address).c_str());
  }
}

void ShowRange(const Known& known, CUdeviceptr address) {
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  Say("  range", cuMemGetAddressRange(&base, &bytes, address));
  Print("  begins %d size %zu", base == known.base, bytes);
  base = 0;
  bytes = 0;
  Say("  range, no size", cuMemGetAddressRange(&base, nullptr, address));
  Say("  range, no base", cuMemGetAddressRange(nullptr, &bytes, address));
  Say("  range, nothing", cuMemGetAddressRange(nullptr, nullptr, address));
  Print("  begins %d size %zu", base == known.base, bytes);
}

void ShowBlock(const char* kind, const Known& known) {
  for (const std::size_t offset : {std::size_t{0}, known.bytes / 2, known.bytes - 1}) {
    Print("%s of %zu at %zu", kind, known.bytes, offset);
    ShowRange(known, known.base + offset);
    ShowAttributes(known, known.base + offset);
  }
}

// Once it is freed, nobody knows the address.
void ShowFreed(const char* kind, const Known& known) {
  Print("%s of %zu, freed", kind, known.bytes);
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  Say("  range", cuMemGetAddressRange(&base, &bytes, known.base));
  for (const CUpointer_attribute attribute :
       {CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_BUFFER_ID,
        CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_MAPPED}) {
    CUresult result = CUDA_SUCCESS;
    Attribute(attribute, known.base, &result);
    Say("  attribute", attribute, result);
  }
  CUpointer_attribute type = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
  unsigned value = 77;
  void* place = &value;
  Say("  together", cuPointerGetAttributes(1, &type, &place, known.base));
  Print("  type %u", value);
}

// Blocks that we pack, and blocks with an allocation of their own.
void Device() {
  CUcontext context = StartDevice();
  std::vector<Known> blocks;
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{300}, std::size_t{512}, std::size_t{5000}, 700 * kKiB,
                                  1 * kMiB, 2 * kMiB, 3 * kMiB + 5, 20 * kMiB}) {
    blocks.push_back({Allocate(bytes), bytes, context, nullptr});
  }
  for (const Known& block : blocks) {
    Print("aligned to 256: %d", block.base % 256 == 0);
    ShowBlock("block", block);
  }
  // Every other one goes: the neighbours stay as they were.
  for (std::size_t i = 0; i < blocks.size(); i += 2) Say("free", cuMemFree(blocks[i].base));
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (i % 2 == 0) {
      ShowFreed("block", blocks[i]);
    } else {
      ShowRange(blocks[i], blocks[i].base + blocks[i].bytes / 2);
    }
  }
  // Another block at the same place, perhaps, and of another size.
  Say("synchronize", cuCtxSynchronize());
  for (std::size_t i = 0; i < blocks.size(); i += 2) {
    const std::size_t bytes = blocks[i].bytes - blocks[i].bytes / 10;
    const Known again{Allocate(bytes), bytes, context, nullptr};
    ShowBlock("again", again);
  }
}
const Scene kDevice("device", "", Device);

void Pitched() {
  CUcontext context = StartDevice();
  for (const std::size_t width : {std::size_t{1}, std::size_t{512}, std::size_t{1000}, 40 * kKiB}) {
    CUdeviceptr block = 0;
    std::size_t pitch = 0;
    Say("pitched", cuMemAllocPitch(&block, &pitch, width, 33, 4));
    Expect(pitch >= width, "a pitch of at least the width");
    Print("pitch %zu", pitch);
    const Known known{block, pitch * 33, context, nullptr};
    ShowBlock("pitched", known);
    Say("free", cuMemFree(block));
    ShowFreed("pitched", known);
  }
}
const Scene kPitched("pitched", "", Pitched);

void StreamOrdered() {
  CUcontext context = StartDevice();
  CUmemoryPool pool = nullptr;
  Must("default pool", cuDeviceGetDefaultMemPool(&pool, 0));
  CUstream stream = NewStream();
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{5000}, 1 * kMiB, 7 * kMiB + 3}) {
    CUdeviceptr block = 0;
    Say("allocate", cuMemAllocAsync(&block, bytes, stream));
    Say("synchronize", cuStreamSynchronize(stream));
    const Known known{block, bytes, context, pool};
    ShowBlock("in stream order", known);
    Say("free", cuMemFreeAsync(block, stream));
    Say("synchronize", cuStreamSynchronize(stream));
    ShowFreed("in stream order", known);
  }
}
const Scene kStreamOrdered("stream-ordered", "", StreamOrdered);

void Managed() {
  CUcontext context = StartDevice();
  for (const std::size_t bytes : {std::size_t{100}, 3 * kMiB}) {
    CUdeviceptr block = 0;
    Say("managed", cuMemAllocManaged(&block, bytes, CU_MEM_ATTACH_GLOBAL));
    const Known known{block, bytes, context, nullptr};
    ShowBlock("managed", known);
    Say("free", cuMemFree(block));
    ShowFreed("managed", known);
  }
}
const Scene kManaged("managed", "", Managed);

void Pinned() {
  CUcontext context = StartDevice();
  for (const std::size_t bytes : {std::size_t{100}, 3 * kMiB}) {
    void* host = nullptr;
    Say("pinned", cuMemHostAlloc(&host, bytes, CU_MEMHOSTALLOC_DEVICEMAP));
    const Known known{reinterpret_cast<CUdeviceptr>(host), bytes, context, nullptr};
    ShowBlock("pinned", known);
    Say("free", cuMemFreeHost(host));
    ShowFreed("pinned", known);
  }
}
const Scene kPinned("pinned", "", Pinned);

// "BUFFER_ID: a process-wide unique id ... guaranteed to be unique for the process's lifetime": caches of registered
// memory notice by it that an address is other memory now.
void BufferIds() {
  StartDevice();
  std::set<unsigned long long> seen;
  std::vector<CUdeviceptr> live;
  int repeated = 0;
  CUstream stream = NewStream();
  for (int round = 0; round < 40; ++round) {
    const std::size_t sizes[] = {256, 4000, 300 * kKiB, 2 * kMiB, 5 * kMiB};
    for (const std::size_t bytes : sizes) live.push_back(Allocate(bytes));
    CUdeviceptr in_stream = 0;
    Must("allocate", cuMemAllocAsync(&in_stream, 6000, stream));
    live.push_back(in_stream);
    for (const CUdeviceptr block : live) {
      CUresult result = CUDA_SUCCESS;
      const unsigned long long at_base = Attribute(CU_POINTER_ATTRIBUTE_BUFFER_ID, block, &result);
      const unsigned long long inside = Attribute(CU_POINTER_ATTRIBUTE_BUFFER_ID, block + 200, &result);
      if (at_base != inside) Print("other id inside");
      if (!seen.insert(at_base).second) ++repeated;
    }
    for (const CUdeviceptr block : live) Must("free", cuMemFree(block));
    live.clear();
    Must("synchronize", cuCtxSynchronize());
  }
  Print("repeated %d", repeated);
  Expect(repeated == 0, "every id once");
}
const Scene kBufferIds("buffer-ids", "", BufferIds);

// An id is a live block's for as long as it lives, whatever is asked of it meanwhile.
void IdsStay() {
  StartDevice();
  for (const std::size_t bytes : {std::size_t{2000}, 4 * kMiB}) {
    Say("free", cuMemFree(Allocate(bytes)));
    Say("synchronize", cuCtxSynchronize());
    const CUdeviceptr block = Allocate(bytes);
    CUresult result = CUDA_SUCCESS;
    const unsigned long long before = Attribute(CU_POINTER_ATTRIBUTE_BUFFER_ID, block, &result);
    const int on = 1;
    Say("sync memops", cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, block));
    Print("same id %d", Attribute(CU_POINTER_ATTRIBUTE_BUFFER_ID, block, &result) == before);
    Say("free", cuMemFree(block));
    Say("synchronize", cuCtxSynchronize());
    const CUdeviceptr next = Allocate(bytes);
    Print("another id %d", Attribute(CU_POINTER_ATTRIBUTE_BUFFER_ID, next, &result) != before);
  }
}
const Scene kIdsStay("ids-stay", "", IdsStay);

// SYNC_MEMOPS is one block's: neighbours, and the next block at the same place, do not have it.
void SyncMemops() {
  StartDevice();
  const auto show = [](const char* what, CUdeviceptr block) {
    int on = 77;
    const CUresult result = cuPointerGetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, block);
    Print("%s %d %d", what, result, on);
  };
  for (const std::size_t bytes : {std::size_t{3000}, 3 * kMiB}) {
    const CUdeviceptr first = Allocate(bytes);
    const CUdeviceptr second = Allocate(bytes);
    const int on = 1;
    const int off = 0;
    show("first", first);
    Say("set", cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, first + 8));
    show("first", first);
    show("first inside", first + bytes - 1);
    show("second", second);
    Say("set", cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, second));
    Say("clear", cuPointerSetAttribute(&off, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, first));
    show("first", first);
    show("second", second);
    Say("free", cuMemFree(first));
    Say("free", cuMemFree(second));
    Say("synchronize", cuCtxSynchronize());
    show("next", Allocate(bytes));
    show("next", Allocate(bytes));
    Say("of freed", cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, 0x1000));
    Say("of nothing", cuPointerSetAttribute(nullptr, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, Allocate(bytes)));
    Say("another", cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_BUFFER_ID, Allocate(bytes)));
  }
}
const Scene kSyncMemops("sync-memops", "", SyncMemops);

// As programs for network cards do with each of their buffers: many more than the device holds at once.
void ManySyncMemops() {
  StartDevice();
  for (int i = 0; i < 300; ++i) {
    const CUdeviceptr block = Allocate(i % 3 == 0 ? 900 * kKiB : 5000);
    const int on = 1;
    Must("set", cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, block));
    int is_on = 0;
    Must("get", cuPointerGetAttribute(&is_on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, block));
    Expect(is_on != 0, "the block has it");
    Must("free", cuMemFree(block));
    Must("synchronize", cuCtxSynchronize());
    const CUdeviceptr next = Allocate(5000);
    Must("get", cuPointerGetAttribute(&is_on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, next));
    Expect(is_on == 0, "the next one does not");
    Must("free", cuMemFree(next));
  }
  std::size_t free_bytes = 0, total = 0;
  Must("info", cuMemGetInfo(&free_bytes, &total));
  Print("but for a page all is back %d", free_bytes + 2 * kMiB >= total);
}
const Scene kManySyncMemops("many-sync-memops", "SIMCUDA_MEMORY=64MiB", ManySyncMemops);

// Only mapped memory has a handle to retain.
void RetainHandle() {
  StartDevice();
  CUmemGenericAllocationHandle handle = 0;
  for (const std::size_t bytes : {std::size_t{3000}, 3 * kMiB}) {
    const CUdeviceptr block = Allocate(bytes);
    Say("block", cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(block)));
    Say("inside", cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(block + 100)));
    Say("free", cuMemFree(block));
    Say("freed", cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(block)));
  }
  CUstream stream = NewStream();
  CUdeviceptr in_stream = 0;
  Must("allocate", cuMemAllocAsync(&in_stream, 6000, stream));
  Say("in stream order", cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(in_stream)));
  Say("nothing", cuMemRetainAllocationHandle(&handle, nullptr));

  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle made = 0;
  CUdeviceptr range = 0;
  Must("create", cuMemCreate(&made, 2 * kMiB, &properties, 0));
  Must("reserve", cuMemAddressReserve(&range, 2 * kMiB, 0, 0, 0));
  Say("not mapped", cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(range)));
  Must("map", cuMemMap(range, 2 * kMiB, 0, made, 0));
  Say("mapped", cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(range + 4096)));
  Print("same %d", handle == made);
  Say("release", cuMemRelease(handle));
  Say("unmap", cuMemUnmap(range, 2 * kMiB));
  Say("release", cuMemRelease(made));
  Say("address", cuMemAddressFree(range, 2 * kMiB));
}
const Scene kRetainHandle("retain-handle", "", RetainHandle);

// Addresses that lie in no block: between small blocks, behind one, of nobody.
void Holes() {
  CUcontext context = StartDevice();
  std::vector<Known> blocks;
  blocks.reserve(12);
  for (int i = 0; i < 12; ++i) blocks.push_back({Allocate(1000), 1000, context, nullptr});
  for (const Known& block : blocks) {
    for (const std::size_t offset : {std::size_t{1000}, std::size_t{1016}, std::size_t{1023}}) {
      CUdeviceptr base = 0;
      std::size_t bytes = 0;
      Say("behind", offset, cuMemGetAddressRange(&base, &bytes, block.base + offset));
      CUmemorytype type = {};
      Say("type behind", offset, cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block.base + offset));
      Say("free behind", offset, cuMemFree(block.base + offset));
    }
  }
  for (const CUdeviceptr nobody : {CUdeviceptr{0}, CUdeviceptr{1}, CUdeviceptr{0x1000}, ~CUdeviceptr{0}}) {
    CUdeviceptr base = 0;
    std::size_t bytes = 0;
    Say("nobody's", cuMemGetAddressRange(&base, &bytes, nobody));
    ShowFreed("nobody's", {nobody, 1, context, nullptr});
  }
}
const Scene kHoles("holes", "", Holes);

}  // namespace
}  // namespace semantics
