// Compiled into the preload library itself, like all that is exported: --exclude-libs hides what comes from archives.
#include "interpose/frameworks/pytorch.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "interpose/frameworks/import_check.h"
#include "interpose/real_loader.h"
#include "interpose/recorder/recorder.h"
#include "interpose/stacks/loaded_objects.h"

namespace c10 {

// As PyTorch declares it (c10/core/Device.h): the name is a part of the mangled names, and both fields go in one
// register.
struct Device {
  std::int8_t type;
  std::int8_t index;
};

using Bytes = std::int64_t;

}  // namespace c10

namespace cuheap::frameworks {
namespace {

constexpr std::int8_t kCuda = 1;  // c10::DeviceType::CUDA

#define FRAMEWORK_HOOK(name) #name,
constexpr const char* kNames[] = {
#include "interpose/frameworks/framework_functions.inc"
};
#undef FRAMEWORK_HOOK
// Positions in kNames.
enum Function : unsigned { kUsage, kUsageSigned, kOutOfMemory, kOutOfMemorySigned, kFunctionCount };
static_assert(sizeof(kNames) / sizeof(kNames[0]) == kFunctionCount);

constinit std::atomic<void*> originals[kFunctionCount] = {};
constinit std::atomic<bool> looked_in_report{false};

// Asked first, since the loader's own look-up would end a text of dlerror that the program has yet to read.
bool IsThere() {
  stacks::LoadedObject object;
  return stacks::FindObject(
      [](const stacks::LoadedObject& candidate) {
        const char* slash = std::strrchr(candidate.name, '/');
        return std::strcmp(slash == nullptr ? candidate.name : slash + 1, "libc10.so") == 0;
      },
      object);
}

// The handle of a loaded library by its soname, or null. Libraries are not loaded by this, and dlerror has no text of
// it.
void* Loaded(const char* name) {
  void* handle = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) dlerror();
  return handle;
}

bool FindOriginals() {
  // Every process has one libc10 at most; its symbols are in no global scope, since Python loads extensions locally.
  void* library = IsThere() ? Loaded("libc10.so") : nullptr;
  if (library == nullptr || RealDlsym() == nullptr) return false;
  for (unsigned i = 0; i < kFunctionCount; ++i) {
    void* found = RealDlsym()(library, kNames[i]);
    if (found != nullptr && !IsOurs(found)) originals[i].store(found, std::memory_order_release);
  }
  return true;  // the handle is kept: the functions must not go away
}

// Says in the journal why reports will not come, if that can be told.
void CheckCaller() {
  void* handle = Loaded("libc10_cuda.so");
  link_map* library = nullptr;
  if (handle == nullptr || dlinfo(handle, RTLD_DI_LINKMAP, static_cast<void*>(&library)) != 0) return;
  Import import = FindImport(*library, kNames[kUsage]);
  if (import == Import::kNone) import = FindImport(*library, kNames[kUsageSigned]);
  if (import == Import::kNone) {
    recorder::Note(journal::NoteCode::kTensorReports,
                   "this PyTorch's libc10_cuda.so does not import c10::reportMemoryUsageToProfiler in a form that is "
                   "known here");
  } else if (import == Import::kBoundElsewhere) {
    recorder::Note(journal::NoteCode::kTensorReports,
                   "libc10_cuda.so calls PyTorch's own c10::reportMemoryUsageToProfiler, not ours: it was loaded with "
                   "RTLD_DEEPBIND, or another library comes first");
  }
  RealDlclose()(handle);
}

void* Original(Function function) {
  void* original = originals[function].load(std::memory_order_acquire);
  if (original != nullptr || looked_in_report.load(std::memory_order_relaxed)) return original;
  FindPyTorch();
  looked_in_report.store(true, std::memory_order_relaxed);
  return originals[function].load(std::memory_order_acquire);
}

std::uint16_t Ordinal(c10::Device device) {
  return device.index < 0 ? std::uint16_t{0xFFFF} : static_cast<std::uint16_t>(device.index);
}

void RecordUsage(void* address, std::int64_t bytes, const recorder::FrameworkTotals& totals, c10::Device device) {
  if (device.type != kCuda || address == nullptr || bytes == 0) return;
  if (bytes > 0) {
    recorder::Allocation tensor;
    tensor.address = reinterpret_cast<std::uint64_t>(address);
    tensor.bytes = static_cast<std::uint64_t>(bytes);
    tensor.device = Ordinal(device);
    tensor.kind = journal::AllocationKind::kTensor;
    tensor.flags = journal::kCallerIsPyTorch;
    tensor.stack = recorder::CaptureStack().id;
    recorder::Allocated(tensor);
  } else {
    recorder::Freeing(reinterpret_cast<std::uint64_t>(address), 0, 0, 0, journal::AllocationKind::kTensor);
  }
  recorder::CompareTotals(Ordinal(device), totals);
}

template <Function kFunction, class Total>
void Usage(void* address, std::int64_t bytes, Total allocated, Total reserved, c10::Device device) {
  RecordUsage(address, bytes, {static_cast<std::uint64_t>(allocated), static_cast<std::uint64_t>(reserved)}, device);
  using Real = void (*)(void*, std::int64_t, Total, Total, c10::Device);
  if (const auto real = reinterpret_cast<Real>(Original(kFunction))) real(address, bytes, allocated, reserved, device);
}

template <Function kFunction, class Total>
void OutOfMemory(std::int64_t bytes, Total allocated, Total reserved, c10::Device device) {
  if (device.type == kCuda) {
    recorder::FrameworkOutOfMemory(Ordinal(device), static_cast<std::uint64_t>(bytes),
                                   {static_cast<std::uint64_t>(allocated), static_cast<std::uint64_t>(reserved)},
                                   recorder::CaptureStack().id);
  }
  using Real = void (*)(std::int64_t, Total, Total, c10::Device);
  if (const auto real = reinterpret_cast<Real>(Original(kFunction))) real(bytes, allocated, reserved, device);
}

}  // namespace

void FindPyTorch() {
  static constinit std::atomic<bool> found{false};
  if (found.load(std::memory_order_acquire)) return;
  const int saved_errno = errno;
  if (FindOriginals() && !found.exchange(true, std::memory_order_acq_rel)) CheckCaller();
  errno = saved_errno;
}

}  // namespace cuheap::frameworks

// Not noexcept: what PyTorch's profiler throws is PyTorch's to catch.
namespace c10 {

namespace hooks = cuheap::frameworks;

#define EXPORTED __attribute__((visibility("default")))

EXPORTED void reportMemoryUsageToProfiler(void* address, Bytes bytes, std::size_t allocated, std::size_t reserved,
                                          Device device) {
  hooks::Usage<hooks::kUsage>(address, bytes, allocated, reserved, device);
}

EXPORTED void reportMemoryUsageToProfiler(void* address, Bytes bytes, Bytes allocated, Bytes reserved, Device device) {
  hooks::Usage<hooks::kUsageSigned>(address, bytes, allocated, reserved, device);
}

EXPORTED void reportOutOfMemoryToProfiler(Bytes bytes, std::size_t allocated, std::size_t reserved, Device device) {
  hooks::OutOfMemory<hooks::kOutOfMemory>(bytes, allocated, reserved, device);
}

EXPORTED void reportOutOfMemoryToProfiler(Bytes bytes, Bytes allocated, Bytes reserved, Device device) {
  hooks::OutOfMemory<hooks::kOutOfMemorySigned>(bytes, allocated, reserved, device);
}

#undef EXPORTED

}  // namespace c10
