// Memory and events shared between processes. Source: CUDA Driver API, Memory Management, cuIpc*; Stream Ordered Memory
// Allocator, cuMemPool*; Virtual Memory Management; CUDA C++ Programming Guide, "Interprocess Communication".
//
// "packed" in a scene's settings: a block below 2 MiB is shared, which a process with the preload library can only pass
// to another with it.
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "tests/interpose/semantics/scene.h"
#include "tests/interpose/semantics/two_processes.h"

namespace semantics {
namespace {

constexpr unsigned kLazy = CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS;
constexpr auto kDescriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

CUipcMemHandle HandleOf(CUdeviceptr address) {
  CUipcMemHandle handle{};
  Must("cuIpcGetMemHandle", cuIpcGetMemHandle(&handle, address));
  return handle;
}

CUdeviceptr OpenMemory(const CUipcMemHandle& handle) {
  CUdeviceptr address = 0;
  Must("cuIpcOpenMemHandle", cuIpcOpenMemHandle(&address, handle, kLazy));
  return address;
}

bool Equal(const CUipcMemHandle& a, const CUipcMemHandle& b) { return std::memcmp(&a, &b, sizeof(a)) == 0; }

void FillAndWait(CUdeviceptr address, unsigned value, std::size_t bytes) {
  Fill(address, value, bytes);
  Must("cuCtxSynchronize", cuCtxSynchronize());
}

// Whose result is the driver's own: only whether it is one.
void ShowRefused(const char* what, CUresult result) { Print("%s: %s", what, result == CUDA_SUCCESS ? "done" : "refused"); }

void ShowBlock(CUdeviceptr block, std::size_t bytes) {
  for (const std::size_t offset : {std::size_t{0}, bytes - 1}) {
    CUdeviceptr base = 0, start = 0;
    std::size_t size = 0, range = 0;
    unsigned type = 0;
    int managed = 7, ordinal = 7;
    Say("range", cuMemGetAddressRange(&base, &size, block + offset));
    Print("  begins %d size %zu", base == block, size);
    Say("start", cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, block + offset));
    Say("size", cuPointerGetAttribute(&range, CU_POINTER_ATTRIBUTE_RANGE_SIZE, block + offset));
    Print("  begins %d size %zu", start == block, range);
    Say("type", cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block + offset));
    Say("managed", cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, block + offset));
    Say("ordinal", cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, block + offset));
    Print("  type %u managed %d device %d", type, managed, ordinal);
  }
}

// One block of several, used on both sides.
void ExportBlock(Line& line, std::size_t bytes) {
  StartDevice();
  const std::vector<CUdeviceptr> blocks = {Allocate(bytes), Allocate(bytes), Allocate(bytes)};
  for (unsigned i = 0; i < 3; ++i) FillAndWait(blocks[i], 10 + i, bytes);
  const CUipcMemHandle handle = HandleOf(blocks[1]);
  Print("twice %d inside %d neighbour %d", Equal(handle, HandleOf(blocks[1])), Equal(handle, HandleOf(blocks[1] + 40)),
        Equal(handle, HandleOf(blocks[0])));
  int capable = 7;
  Say("capable", cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, blocks[1]));
  Print("  %d", capable);
  ShowBlock(blocks[1], bytes);
  line.Send(handle);
  line.Meet();  // it is read
  line.Meet();  // and written
  Expect(Holds(blocks[1], 21, bytes), "what the other process wrote");
  Expect(Holds(blocks[0], 10, bytes) && Holds(blocks[2], 12, bytes), "its neighbours as they were");
  FillAndWait(blocks[1], 31, bytes);
  line.Meet();
  line.Meet();  // it is closed
  for (const CUdeviceptr block : blocks) Say("free", cuMemFree(block));
  Say("free again", cuMemFree(blocks[1]));
}

void ImportBlock(Line& line, std::size_t bytes) {
  StartDevice();
  CUdeviceptr block = 0;
  Say("open", cuIpcOpenMemHandle(&block, line.Receive<CUipcMemHandle>(), kLazy));
  ShowBlock(block, bytes);
  Expect(Holds(block, 11, bytes), "what the exporter wrote");
  line.Meet();
  FillAndWait(block, 21, bytes);
  line.Meet();
  line.Meet();
  Expect(Holds(block, 31, bytes), "what the exporter wrote later");
  ShowRefused("free", cuMemFree(block));
  ShowRefused("close inside", cuIpcCloseMemHandle(block + 4));
  Say("close", cuIpcCloseMemHandle(block));
  ShowRefused("close again", cuIpcCloseMemHandle(block));
  CUdeviceptr base = 0;
  std::size_t size = 0;
  Say("range", cuMemGetAddressRange(&base, &size, block));
  line.Meet();
}

constexpr std::size_t kSmall = 1000, kLarge = 5 * kMiB;

void SmallBlock() {
  RunTwo("small_block", [](Line& line) { ExportBlock(line, kSmall); }, [](Line& line) { ImportBlock(line, kSmall); });
}
void LargeBlock() {
  RunTwo("large_block", [](Line& line) { ExportBlock(line, kLarge); }, [](Line& line) { ImportBlock(line, kLarge); });
}

// A block that is opened often, with its neighbour; the last close of each ends it.
void Reopen(Line& line, std::size_t bytes) {
  StartDevice();
  const auto handle = line.Receive<CUipcMemHandle>(), other_handle = line.Receive<CUipcMemHandle>();
  const CUdeviceptr block = OpenMemory(handle), other = OpenMemory(other_handle);
  Print("again %d other %d", OpenMemory(handle) == block, other == block);
  Say("close", cuIpcCloseMemHandle(block));
  Expect(Holds(block, 1, bytes), "the block after one of two closes");
  Say("close other", cuIpcCloseMemHandle(other));
  Expect(Holds(block, 1, bytes), "the block after its neighbour's close");
  Say("close", cuIpcCloseMemHandle(block));
  ShowRefused("close again", cuIpcCloseMemHandle(block));
  ShowRefused("close other again", cuIpcCloseMemHandle(other));
  const CUdeviceptr later = OpenMemory(handle);
  Expect(Holds(later, 1, bytes), "the block opened anew");
  Say("reset", cuDevicePrimaryCtxReset(0));
  CUcontext context = nullptr;
  Must("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&context, 0));
  Must("cuCtxSetCurrent", cuCtxSetCurrent(context));
  ShowRefused("close after the reset", cuIpcCloseMemHandle(later));
  const CUdeviceptr anew = OpenMemory(other_handle);
  Expect(Holds(anew, 2, bytes), "the neighbour opened after the reset");
  line.Meet();
}

void ExportTwo(Line& line, std::size_t bytes) {
  StartDevice();
  const CUdeviceptr block = Allocate(bytes), other = Allocate(bytes);
  FillAndWait(block, 1, bytes);
  FillAndWait(other, 2, bytes);
  line.Send(HandleOf(block));
  line.Send(HandleOf(other));
  line.Meet();
}

void ReopenSmall() {
  RunTwo("reopen_small", [](Line& line) { ExportTwo(line, kSmall); }, [](Line& line) { Reopen(line, kSmall); });
}
void ReopenLarge() {
  RunTwo("reopen_large", [](Line& line) { ExportTwo(line, kLarge); }, [](Line& line) { Reopen(line, kLarge); });
}

// Whatever lies at the address later, the old handle does not open it, and no handle comes twice.
void ExportAndReuse(Line& line, std::size_t bytes) {
  StartDevice();
  const CUdeviceptr neighbour = Allocate(bytes);
  CUipcMemHandle last{};
  for (unsigned round = 0; round < 20; ++round) {
    const CUdeviceptr block = Allocate(bytes);
    FillAndWait(block, round, bytes);
    const CUipcMemHandle handle = HandleOf(block);
    Expect(!Equal(handle, last), "a handle of its own for each block");
    line.Send(handle);
    line.Meet();  // opened, read and closed
    Say("free", cuMemFree(block));
    FillAndWait(Allocate(bytes), 1000 + round, bytes);
    line.Send(last = handle);
    line.Meet();
  }
  Say("free", cuMemFree(neighbour));
}

void OpenOldHandles(Line& line, std::size_t bytes) {
  StartDevice();
  for (unsigned round = 0; round < 20; ++round) {
    const CUdeviceptr block = OpenMemory(line.Receive<CUipcMemHandle>());
    Expect(Holds(block, round, bytes), "the block's own bytes");
    Say("close", cuIpcCloseMemHandle(block));
    line.Meet();
    CUdeviceptr old = 0;
    ShowRefused("open an old handle", cuIpcOpenMemHandle(&old, line.Receive<CUipcMemHandle>(), kLazy));
    line.Meet();
  }
}

void OldHandlesSmall() {
  RunTwo("old_handles_small", [](Line& line) { ExportAndReuse(line, kSmall); },
         [](Line& line) { OpenOldHandles(line, kSmall); });
}
void OldHandlesLarge() {
  RunTwo("old_handles_large", [](Line& line) { ExportAndReuse(line, kLarge); },
         [](Line& line) { OpenOldHandles(line, kLarge); });
}

// The second process exports and ends without freeing anything.
void ExporterEnds(Line& line, std::size_t bytes) {
  StartDevice();
  const auto handle = line.Receive<CUipcMemHandle>();
  const CUdeviceptr block = OpenMemory(handle);
  Expect(Holds(block, 5, bytes), "what the exporter wrote");
  Say("close", cuIpcCloseMemHandle(block));
  line.Meet();
  line.WaitForEnd();
  CUdeviceptr old = 0;
  ShowRefused("open", cuIpcOpenMemHandle(&old, handle, kLazy));
  FillAndWait(Allocate(bytes), 6, bytes);
}

void ExportAndEnd(Line& line, std::size_t bytes) {
  StartDevice();
  const CUdeviceptr block = Allocate(bytes);
  FillAndWait(block, 5, bytes);
  line.Send(HandleOf(block));
  line.Meet();
}

void ExporterEndsSmall() {
  RunTwo("exporter_ends_small", [](Line& line) { ExporterEnds(line, kSmall); },
         [](Line& line) { ExportAndEnd(line, kSmall); });
}
void ExporterEndsLarge() {
  RunTwo("exporter_ends_large", [](Line& line) { ExporterEnds(line, kLarge); },
         [](Line& line) { ExportAndEnd(line, kLarge); });
}

std::size_t SizeOf(unsigned round) { return std::size_t{256} << (round % 5) * 2; }

// Many blocks of several sizes that come and go while the other process holds some of them.
void ManyBlocks() {
  constexpr unsigned kRounds = 60;
  RunTwo(
      "many_blocks",
      [](Line& line) {
        StartDevice();
        std::vector<CUdeviceptr> blocks;
        for (unsigned round = 0; round < kRounds; ++round) {
          const std::size_t bytes = SizeOf(round);
          blocks.push_back(Allocate(bytes));
          FillAndWait(blocks.back(), round, bytes);
          line.Send(HandleOf(blocks.back()));
          const CUdeviceptr passing = Allocate(bytes);
          Fill(passing, 77, bytes);
          Must("cuMemFree", cuMemFree(passing));
        }
        line.Meet();  // all are open
        line.Meet();  // every other one is closed
        for (unsigned round = 0; round < kRounds; round += 2) Must("cuMemFree", cuMemFree(blocks[round]));
        for (unsigned round = 0; round < kRounds; ++round) {
          const std::size_t bytes = SizeOf(round);
          FillAndWait(Allocate(bytes), 99, bytes);
        }
        line.Meet();
        line.Meet();
        Print("done");
      },
      [](Line& line) {
        StartDevice();
        std::vector<CUdeviceptr> blocks;
        for (unsigned round = 0; round < kRounds; ++round) blocks.push_back(OpenMemory(line.Receive<CUipcMemHandle>()));
        line.Meet();
        for (unsigned round = 0; round < kRounds; round += 2) Say("close", cuIpcCloseMemHandle(blocks[round]));
        line.Meet();
        line.Meet();
        for (unsigned round = 1; round < kRounds; round += 2) {
          Expect(Holds(blocks[round], round, SizeOf(round)), "an open block's bytes");
          Say("close", cuIpcCloseMemHandle(blocks[round]));
        }
        line.Meet();
      });
}

// In the process that made it a handle opens nothing.
void OwnHandle() {
  StartDevice();
  for (const std::size_t bytes : {kSmall, kLarge}) {
    CUdeviceptr opened = 0;
    const CUipcMemHandle handle = HandleOf(Allocate(bytes));
    Say("open", cuIpcOpenMemHandle(&opened, handle, kLazy));
    Say("open without the flag", cuIpcOpenMemHandle(&opened, handle, 0));
    Say("open to nowhere", cuIpcOpenMemHandle(nullptr, handle, kLazy));
    Say("handle to nowhere", cuIpcGetMemHandle(nullptr, Allocate(bytes)));
  }
  CUdeviceptr managed = 0, ordered = 0;
  CUipcMemHandle handle{};
  Must("cuMemAllocManaged", cuMemAllocManaged(&managed, kMiB, CU_MEM_ATTACH_GLOBAL));
  Must("cuMemAllocAsync", cuMemAllocAsync(&ordered, kMiB, nullptr));
  Say("handle of managed memory", cuIpcGetMemHandle(&handle, managed));
  Say("handle of stream-ordered memory", cuIpcGetMemHandle(&handle, ordered));
  Say("handle of nothing", cuIpcGetMemHandle(&handle, 4096));
  const CUdeviceptr freed = Allocate(kSmall);
  Say("free", cuMemFree(freed));
  Say("handle of a freed block", cuIpcGetMemHandle(&handle, freed));
}

// The importer's stream waits for the exporter's work, and the other way round.
void Events() {
  RunTwo(
      "events",
      [](Line& line) {
        StartDevice();
        const CUdeviceptr block = Allocate(kLarge);
        CUstream stream = NewStream();
        CUevent event = nullptr;
        CUipcEventHandle handle{};
        Must("cuEventCreate", cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
        Must("cuIpcGetEventHandle", cuIpcGetEventHandle(&handle, event));
        line.Send(HandleOf(block));
        line.Send(handle);
        for (unsigned round = 0; round < 10; ++round) {
          Must("cuMemsetD32Async", cuMemsetD32Async(block, round, 1000, stream));
          Must("cuEventRecord", cuEventRecord(event, stream));
          line.Meet();
          line.Meet();
          Say("wait", cuStreamWaitEvent(stream, event, 0));
          unsigned word = 0;
          Say("copy", cuMemcpyDtoHAsync(&word, block, sizeof(word), stream));
          Say("synchronise", cuStreamSynchronize(stream));
          Print("read %u", word);
        }
      },
      [](Line& line) {
        StartDevice();
        const CUdeviceptr block = OpenMemory(line.Receive<CUipcMemHandle>());
        CUstream stream = NewStream();
        CUevent event = nullptr;
        Must("cuIpcOpenEventHandle", cuIpcOpenEventHandle(&event, line.Receive<CUipcEventHandle>()));
        for (unsigned round = 0; round < 10; ++round) {
          line.Meet();
          Say("wait", cuStreamWaitEvent(stream, event, 0));
          unsigned word = 0;
          Say("copy", cuMemcpyDtoHAsync(&word, block, sizeof(word), stream));
          Say("synchronise", cuStreamSynchronize(stream));
          Print("read %u", word);
          Must("cuMemsetD32Async", cuMemsetD32Async(block, 100 + round, 1000, stream));
          Must("cuEventRecord", cuEventRecord(event, stream));
          line.Meet();
        }
        Say("destroy", cuEventDestroy(event));
        Say("close", cuIpcCloseMemHandle(block));
      });
}

void* AsHandle(int descriptor) { return reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)); }

// A pool whose handle is a descriptor, and pointers of it.
void ExportedPool() {
  RunTwo(
      "exported_pool",
      [](Line& line) {
        StartDevice();
        CUmemPoolProps props{};
        props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        props.handleTypes = kDescriptor;
        props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        CUmemoryPool pool = nullptr;
        Must("cuMemPoolCreate", cuMemPoolCreate(&pool, &props));
        int descriptor = -1;
        Say("export", cuMemPoolExportToShareableHandle(&descriptor, pool, kDescriptor, 0));
        line.SendDescriptor(descriptor);
        close(descriptor);
        CUdeviceptr blocks[2] = {};
        for (unsigned i = 0; i < 2; ++i) {
          CUmemPoolPtrExportData data{};
          Must("cuMemAllocFromPoolAsync", cuMemAllocFromPoolAsync(&blocks[i], i == 0 ? kSmall : kLarge, pool, nullptr));
          FillAndWait(blocks[i], 40 + i, 1000);
          Say("export", cuMemPoolExportPointer(&data, blocks[i]));
          line.Send(data);
        }
        line.Meet();
        for (const CUdeviceptr block : blocks) {
          Print("read %u", ReadWord(block));
          Say("free", cuMemFreeAsync(block, nullptr));
        }
        Say("synchronise", cuCtxSynchronize());
        Say("destroy", cuMemPoolDestroy(pool));
        // Plain pools have nothing to export.
        CUmemoryPool plain = nullptr;
        Must("cuDeviceGetDefaultMemPool", cuDeviceGetDefaultMemPool(&plain, 0));
        Say("export", cuMemPoolExportToShareableHandle(&descriptor, plain, kDescriptor, 0));
        CUdeviceptr block = 0;
        CUmemPoolPtrExportData data{};
        Must("cuMemAllocAsync", cuMemAllocAsync(&block, kSmall, nullptr));
        Say("export", cuMemPoolExportPointer(&data, block));
      },
      [](Line& line) {
        StartDevice();
        const int descriptor = line.ReceiveDescriptor();
        CUmemoryPool pool = nullptr;
        Say("import", cuMemPoolImportFromShareableHandle(&pool, AsHandle(descriptor), kDescriptor, 0));
        close(descriptor);
        CUdeviceptr blocks[2] = {};
        for (CUdeviceptr& block : blocks) {
          auto data = line.Receive<CUmemPoolPtrExportData>();
          Say("import", cuMemPoolImportPointer(&block, pool, &data));
          Print("read %u", ReadWord(block));
          FillAndWait(block, 50, 1000);
        }
        CUdeviceptr none = 0;
        Say("allocate", cuMemAllocFromPoolAsync(&none, kSmall, pool, nullptr));
        Say("free", cuMemFree(blocks[0]));
        Say("free", cuMemFreeAsync(blocks[1], nullptr));
        Say("synchronise", cuCtxSynchronize());
        Say("destroy", cuMemPoolDestroy(pool));
        line.Meet();
      });
}

CUdeviceptr MapWhole(CUmemGenericAllocationHandle handle, std::size_t bytes) {
  CUdeviceptr address = 0;
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  Must("cuMemAddressReserve", cuMemAddressReserve(&address, bytes, 0, 0, 0));
  Must("cuMemMap", cuMemMap(address, bytes, 0, handle, 0));
  Must("cuMemSetAccess", cuMemSetAccess(address, bytes, &access, 1));
  return address;
}

// Mapped memory whose handle is a descriptor.
void ExportedMapping() {
  RunTwo(
      "exported_mapping",
      [](Line& line) {
        StartDevice();
        CUmemAllocationProp props{};
        props.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        props.requestedHandleTypes = kDescriptor;
        props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        CUmemGenericAllocationHandle handle = 0;
        Must("cuMemCreate", cuMemCreate(&handle, 4 * kMiB, &props, 0));
        const CUdeviceptr memory = MapWhole(handle, 4 * kMiB);
        FillAndWait(memory, 60, 4 * kMiB);
        int descriptor = -1;
        Say("export", cuMemExportToShareableHandle(&descriptor, handle, kDescriptor, 0));
        line.SendDescriptor(descriptor);
        close(descriptor);
        line.Meet();
        Expect(Holds(memory, 61, 4 * kMiB), "what the other process wrote");
        Say("unmap", cuMemUnmap(memory, 4 * kMiB));
        Say("release", cuMemRelease(handle));
        props.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
        Must("cuMemCreate", cuMemCreate(&handle, 4 * kMiB, &props, 0));
        ShowRefused("export", cuMemExportToShareableHandle(&descriptor, handle, kDescriptor, 0));
      },
      [](Line& line) {
        StartDevice();
        const int descriptor = line.ReceiveDescriptor();
        CUmemGenericAllocationHandle handle = 0;
        Say("import", cuMemImportFromShareableHandle(&handle, AsHandle(descriptor), kDescriptor));
        close(descriptor);
        const CUdeviceptr memory = MapWhole(handle, 4 * kMiB);
        Expect(Holds(memory, 60, 4 * kMiB), "what the exporter wrote");
        FillAndWait(memory, 61, 4 * kMiB);
        line.Meet();
        Say("unmap", cuMemUnmap(memory, 4 * kMiB));
        Say("release", cuMemRelease(handle));
        ShowRefused("release again", cuMemRelease(handle));
      });
}

// A block of the second device is opened where the first one is current: access comes with the opening.
void ExportFromSecondDevice(Line& line, std::size_t bytes) {
  if (!HasDevices(2)) return line.Send(CUipcMemHandle{});
  StartDevice(1);
  Allocate(bytes);
  const CUdeviceptr block = Allocate(bytes);
  FillAndWait(block, 80, bytes);
  line.Send(HandleOf(block));
  line.Meet();
  Expect(Holds(block, 81, bytes), "what a kernel of the other device wrote");
}

void ImportOnFirstDevice(Line& line, std::size_t bytes) {
  const auto handle = line.Receive<CUipcMemHandle>();
  if (!HasDevices(2)) return;
  CUcontext context = StartDevice(0);
  int possible = 0, ordinal = 7;
  Must("cuDeviceCanAccessPeer", cuDeviceCanAccessPeer(&possible, 0, 1));
  if (possible == 0) return Print("these devices are no peers");
  const CUdeviceptr block = OpenMemory(handle);
  Say("ordinal", cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, block));
  Print("  %d", ordinal);
  Expect(Holds(block, 80, bytes), "what the exporter wrote");
  const CUdeviceptr here = Allocate(bytes);
  Say("copy", cuMemcpyDtoD(here, block, bytes));
  Expect(Holds(here, 80, bytes), "the copy on this device");
  const Kernels kernels;
  Say("launch", kernels.Fill(nullptr, block, bytes / sizeof(unsigned), 81));
  Say("synchronise", cuCtxSynchronize());
  line.Meet();
  // On its own device, in this process, there is nothing of it to free.
  CUcontext second = nullptr;
  Must("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&second, 1));
  Must("cuCtxSetCurrent", cuCtxSetCurrent(second));
  ShowRefused("free", cuMemFree(block));
  Must("cuCtxSetCurrent", cuCtxSetCurrent(context));
  Say("close", cuIpcCloseMemHandle(block));
}

void OtherDeviceSmall() {
  RunTwo("other_device_small", [](Line& line) { ExportFromSecondDevice(line, kSmall); },
         [](Line& line) { ImportOnFirstDevice(line, kSmall); });
}
void OtherDeviceLarge() {
  RunTwo("other_device_large", [](Line& line) { ExportFromSecondDevice(line, kLarge); },
         [](Line& line) { ImportOnFirstDevice(line, kLarge); });
}

// With one process under the preload library and one not: a packed block is the other's bytes, or refused.
void OpenSmall() {
  RunTwo(
      "open_small",
      [](Line& line) {
        StartDevice();
        for (int i = 0; i < 5; ++i) FillAndWait(Allocate(kSmall), 70, kSmall);
        const CUdeviceptr block = Allocate(kSmall);
        FillAndWait(block, 71, kSmall);
        line.Send(HandleOf(block));
        line.Meet();
      },
      [](Line& line) {
        StartDevice();
        CUdeviceptr block = 0;
        const CUresult result = cuIpcOpenMemHandle(&block, line.Receive<CUipcMemHandle>(), kLazy);
        ShowRefused("open", result);
        if (result == CUDA_SUCCESS) Expect(Holds(block, 71, kSmall), "the block's bytes");
        line.Meet();
      });
}

const Scene kScenes[] = {
    {"small_block", "packed", SmallBlock},
    {"large_block", "", LargeBlock},
    {"reopen_small", "packed", ReopenSmall},
    {"reopen_large", "", ReopenLarge},
    {"old_handles_small", "packed", OldHandlesSmall},
    {"old_handles_large", "", OldHandlesLarge},
    {"exporter_ends_small", "packed", ExporterEndsSmall},
    {"exporter_ends_large", "", ExporterEndsLarge},
    {"many_blocks", "packed", ManyBlocks},
    {"own_handle", "", OwnHandle},
    {"events", "", Events},
    {"exported_pool", "", ExportedPool},
    {"exported_mapping", "", ExportedMapping},
    {"other_device_small", "SIMCUDA_DEVICES=2 packed", OtherDeviceSmall},
    {"other_device_large", "SIMCUDA_DEVICES=2", OtherDeviceLarge},
    {"open_small", "packed", OpenSmall},
};

}  // namespace
}  // namespace semantics
