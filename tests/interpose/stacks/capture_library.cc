#include "tests/interpose/stacks/capture_library.h"

#include "interpose/recorder/recorder.h"
#include "interpose/stacks/loaded_objects.h"
#include "interpose/stacks/unwinder.h"

CaptureLibraryWalk CaptureLibraryWalkStack(std::uint64_t* addresses, unsigned max_addresses) {
  cuheap::stacks::LoadedObject self;
  cuheap::stacks::FindLoadedObject(reinterpret_cast<std::uint64_t>(&CaptureLibraryWalkStack), self);
  const auto walk =
      cuheap::stacks::WalkStack(cuheap::stacks::CurrentRegisters(), self.begin, self.end, addresses, max_addresses);
  return {walk.depth, walk.truncated, walk.failed};
}

bool CaptureLibraryStart(const char* directory) { return CaptureLibraryStartWithCap(directory, 64u << 20); }

bool CaptureLibraryStartWithCap(const char* directory, std::uint64_t max_event_bytes) {
  cuheap::recorder::StartOptions options;
  options.directory = directory;
  options.max_event_bytes = max_event_bytes;
  return cuheap::recorder::Start(options);
}

void CaptureLibraryConfigure(bool enabled, unsigned max_depth) {
  cuheap::recorder::ConfigureStacks({enabled, max_depth});
}

std::uint64_t CaptureLibraryCapture(bool need_caller) {
  const auto captured = cuheap::recorder::CaptureStack(need_caller);
  return captured.id | (captured.caller_is_pytorch ? std::uint64_t{1} << 32 : 0);
}

std::uint64_t CaptureLibraryCaptureFor(void*) { return CaptureLibraryCapture(true); }

std::uint32_t CaptureLibraryAllocate(std::uint64_t address, std::uint64_t bytes, std::uint64_t stream) {
  cuheap::recorder::Allocation block;
  block.address = address;
  block.bytes = bytes;
  block.stream = stream;
  block.kind = cuheap::journal::AllocationKind::kDevice;
  block.device = 0;
  block.stack = cuheap::recorder::CaptureStack().id;
  cuheap::recorder::Allocated(block);
  return block.stack;
}

void CaptureLibraryFree(std::uint64_t address, std::uint64_t stream) { cuheap::recorder::Freeing(address, 0, stream); }

void CaptureLibraryModulesChanged() { cuheap::recorder::ModulesChanged(); }
