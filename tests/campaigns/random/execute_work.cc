// Streams, work, what the host reads, and answers.
#include <utility>

#include "tests/campaigns/random/machine.h"

namespace cuheap::campaigns {
namespace {

// Runs with a context current, then with what was before.
template <class Call>
CUresult Inside(CUcontext context, Call&& call) {
  if (const CUresult result = cuCtxPushCurrent(context); result != CUDA_SUCCESS) return result;
  const CUresult result = call();
  CUcontext popped = nullptr;
  cuCtxPopCurrent(&popped);
  return result;
}

template <class Query>
CUresult Poll(Query&& query) {
  for (;;) {
    const CUresult result = query();
    if (result != CUDA_ERROR_NOT_READY) return result;
  }
}

// A host function's answer, and where it goes.
struct HostWrite {
  unsigned char* to;
  std::uint32_t value;
};

void WriteOnHost(void* data) {
  const auto* write = static_cast<HostWrite*>(data);
  FillRandom(write->to, 4, write->value);
  delete write;
}

}  // namespace

// ---- streams ----

CUresult Machine::WaitFor(const Op& op) {
  const Where on = At(op.args[1]);
  const Where waiting = At(op.args[0]);
  CUevent event = nullptr;
  const CUcontext context = op.args[1] >= 0 ? contexts_[streams_[op.args[1]].context].handle : Current().handle;
  const CUresult recorded = Inside(context, [&] {
    const CUresult made = cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    return made == CUDA_SUCCESS ? on.calls->record(event, on.stream) : made;
  });
  if (recorded != CUDA_SUCCESS) return recorded;
  const CUresult waited = waiting.calls->wait_event(waiting.stream, event, 0);
  const CUresult destroyed = cuEventDestroy(event);
  return waited != CUDA_SUCCESS ? waited : destroyed;
}

CUresult Machine::DoStream(const Op& op) {
  switch (op.kind) {
    case OpKind::kCreateStream: {
      Stream& stream = streams_[op.args[0]];
      for (auto& [number, context] : contexts_.all()) {
        if (&context == &Current()) stream.context = number;
      }
      return cuStreamCreate(&stream.handle, op.args[1] != 0 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT);
    }
    case OpKind::kDestroyStream:
      return cuStreamDestroy(streams_[op.args[0]].handle);
    case OpKind::kWait:
      return WaitFor(op);
    case OpKind::kRecord: {
      Event& event = events_[op.args[0]];
      if (event.handle == nullptr) {
        const CUresult made = cuEventCreate(&event.handle, CU_EVENT_DISABLE_TIMING);
        if (made != CUDA_SUCCESS) return made;
      }
      const Where where = At(op.args[1]);
      return where.calls->record(event.handle, where.stream);
    }
    case OpKind::kWaitEvent: {
      const Where where = At(op.args[0]);
      return where.calls->wait_event(where.stream, events_[op.args[1]].handle, 0);
    }
    case OpKind::kEventSynchronize:
      return cuEventSynchronize(events_[op.args[0]].handle);
    case OpKind::kPollEvent:
      return Poll([event = events_[op.args[0]].handle] { return cuEventQuery(event); });
    case OpKind::kPollStream:
      return Poll([where = At(op.args[0])] { return where.calls->query(where.stream); });
    case OpKind::kStreamSynchronize: {
      const Where where = At(op.args[0]);
      return where.calls->synchronize(where.stream);
    }
    default:
      return cuCtxSynchronize();
  }
}

// ---- work ----

CUresult Machine::DoWork(const Op& op) {
  const auto& a = op.args;
  const auto size = [&a](std::size_t index) { return static_cast<std::size_t>(a[index]); };
  const auto value = [&a](std::size_t index) { return static_cast<std::uint32_t>(a[index]); };
  switch (op.kind) {
    case OpKind::kMemset: {
      const Where where = At(a[4]);
      return where.calls->memset_async(Address(a[0], a[1]), static_cast<unsigned char>(a[2]), size(3), where.stream);
    }
    case OpKind::kHostToDevice: {
      const Where where = At(a[5]);
      const HostBuffer& host = RandomHost(size(4), a[2], a[3] != 0);
      return where.calls->to_device_async(Address(a[0], a[1]), host.data(), size(4), where.stream);
    }
    case OpKind::kDeviceToDevice: {
      const Where where = At(a[3]);
      return where.calls->on_device_async(Address(a[0], 0), Address(a[1], 0), size(2), where.stream);
    }
    case OpKind::kPeerCopy: {
      const Where where = At(a[3]);
      return where.calls->peer_async(Address(a[0], 0), contexts_[blocks_[a[0]].context].handle, Address(a[1], 0),
                                     contexts_[blocks_[a[1]].context].handle, size(2), where.stream);
    }
    case OpKind::kDeviceToHost: {
      const Where where = At(a[5]);
      const HostBuffer& host = Slot(a[0], size(4), a[1] != 0);
      return where.calls->to_host_async(host.data(), Address(a[2], a[3]), size(4), where.stream);
    }
    case OpKind::kFill:
      return LaunchFill(Current().kernels, At(a[0]), Address(a[1], a[2]), value(3), size(4) / 4);
    case OpKind::kAdd:
      return LaunchAdd(Current().kernels, At(a[0]), Address(a[1], a[2]), value(3), size(4) / 4);
    case OpKind::kHiddenAdd:
      return LaunchHiddenAdd(At(a[0]), Address(a[1], a[2]), value(3), size(4) / 4);
    case OpKind::kSum:
      return LaunchSum(Current().kernels, At(a[0]), Address(a[1], 0), Address(a[2], 0), Address(a[3], 0), size(4) / 4);
    default: {  // kHostFunction
      const Where where = At(a[0]);
      return where.calls->host_function(where.stream, WriteOnHost,
                                        new HostWrite{Slot(a[1], 4, false).data(), value(2)});
    }
  }
}

// ---- graphs ----

CUresult Machine::DoGraph(const Op& op) {
  switch (op.kind) {
    case OpKind::kBeginCapture:
      return cuStreamBeginCapture(streams_[op.args[0]].handle, static_cast<CUstreamCaptureMode>(op.args[1]));
    case OpKind::kEndCapture: {
      CUgraph graph = nullptr;
      const CUresult ended = cuStreamEndCapture(streams_[op.args[0]].handle, &graph);
      if (ended != CUDA_SUCCESS) return ended;
      const CUresult made = cuGraphInstantiate(&graphs_[op.args[1]].handle, graph, 0);
      graphs_[op.args[1]].context = streams_[op.args[0]].context;
      const CUresult destroyed = cuGraphDestroy(graph);
      return made != CUDA_SUCCESS ? made : destroyed;
    }
    case OpKind::kLaunchGraph: {
      const Where where = At(op.args[1]);
      return where.calls->launch_graph(graphs_[op.args[0]].handle, where.stream);
    }
    default:
      return cuGraphExecDestroy(std::exchange(graphs_[op.args[0]].handle, nullptr));
  }
}

CUresult Machine::DoSynchronousWork(const Op& op) {
  const auto& a = op.args;
  const auto size = [&a](std::size_t index) { return static_cast<std::size_t>(a[index]); };
  if (op.kind == OpKind::kMemsetNow)
    return At(a[4]).calls->memset_now(Address(a[0], a[1]), static_cast<unsigned char>(a[2]), size(3));
  const Where where = At(a[5]);
  if (op.kind == OpKind::kHostToDeviceNow) {
    return where.calls->to_device_now(Address(a[0], a[1]), RandomHost(size(4), a[2], a[3] != 0).data(), size(4));
  }
  return where.calls->to_host_now(Slot(a[0], size(4), a[1] != 0).data(), Address(a[2], a[3]), size(4));
}

// ---- the host ----

CUresult Machine::DoHost(const Op& op, std::ostream& out) {
  if (op.kind == OpKind::kRead) {
    const HostSlot& slot = slots_[op.args[0]];
    out << "bytes " << std::hex << Hash(slot.buffer->data(), slot.bytes) << std::dec;
    return CUDA_SUCCESS;
  }
  Block& block = blocks_[op.args[0]];
  unsigned char* host = block.registered ? block.registered.get() : reinterpret_cast<unsigned char*>(block.address);
  if (op.kind == OpKind::kHostReads) {
    out << "bytes " << std::hex << Hash(host + op.args[1], static_cast<std::size_t>(op.args[2])) << std::dec;
  } else {
    FillRandom(host, block.bytes, static_cast<std::uint32_t>(op.args[1]));
  }
  return CUDA_SUCCESS;
}

// ---- another process ----

CUresult Machine::DoElsewhere(const Op& op, std::ostream& out) {
  Block& block = blocks_[op.args[0]];
  if (op.kind == OpKind::kOpenElsewhere) {
    CUipcMemHandle handle = {};
    block.importer = op.args[1] == 0 ? 0 : 1;
    const CUresult got = cuIpcGetMemHandle(&handle, block.address);
    if (got != CUDA_SUCCESS) return got;
    const int device = contexts_[block.context].device;
    out << "opened " << importers_[static_cast<std::size_t>(block.importer)].Open(op.args[0], device, handle);
    return CUDA_SUCCESS;
  }
  Importer& importer = importers_[static_cast<std::size_t>(block.importer)];
  if (op.kind == OpKind::kCloseElsewhere) {
    block.importer = -1;
    out << "closed " << importer.Close(op.args[0]);
  } else {
    out << "there " << importer.Add(op.args[0], block.bytes, static_cast<std::uint32_t>(op.args[1]));
  }
  return CUDA_SUCCESS;
}

// ---- answers ----

CUresult Machine::DoAnswers(const Op& op, std::ostream& out) {
  CUdeviceptr none = 0;
  switch (op.kind) {
    case OpKind::kQueries:
      Queries(blocks_[op.args[0]], out);
      return CUDA_SUCCESS;
    case OpKind::kBadCalls:
      BadCalls(blocks_[op.args[0]].address, out);
      return CUDA_SUCCESS;
    case OpKind::kTooMuch:
      out << "too much " << cuMemAlloc(&none, static_cast<std::size_t>(op.args[0]));
      return CUDA_SUCCESS;
    case OpKind::kTooMuchAsync: {
      const Where where = At(op.args[1]);
      out << "too much " << where.calls->allocate_async(&none, static_cast<std::size_t>(op.args[0]), where.stream);
      return CUDA_SUCCESS;
    }
    case OpKind::kIllegalAccess:
      out << "illegal access " << IllegalAccess(op);
      return CUDA_SUCCESS;
    default:
      Codes(op, out);
      return CUDA_SUCCESS;
  }
}

void Machine::Queries(const Block& block, std::ostream& out) const {
  const CUdeviceptr address = block.address;
  const std::size_t size = block.bytes;
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  const CUresult range = cuMemGetAddressRange(&base, &bytes, address + size / 2);
  out << "range " << range << ' ' << (range == CUDA_SUCCESS ? address - base : 0) << ' ' << bytes;
  CUdeviceptr start = 0;
  const CUresult got = cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address + size / 2);
  std::size_t range_bytes = 0;
  cuPointerGetAttribute(&range_bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address + size / 2);
  unsigned long long first_id = 0, last_id = 0;
  cuPointerGetAttribute(&first_id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address);
  cuPointerGetAttribute(&last_id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address + size - 1);
  unsigned type = 0;
  cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
  int ordinal = -1;
  cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);
  unsigned managed = 0;  // attributes that are true or false fill 32 bits
  cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address);
  CUcontext context = nullptr;
  const CUresult owner = cuPointerGetAttribute(static_cast<void*>(&context), CU_POINTER_ATTRIBUTE_CONTEXT, address);
  out << " attributes " << got << ' ' << (got == CUDA_SUCCESS ? address - start : 0) << ' ' << range_bytes << ' '
      << (first_id == last_id) << ' ' << type << ' ' << ordinal << ' ' << managed << ' ' << owner << ' '
      << (context != nullptr);
}

void Machine::BadCalls(CUdeviceptr live, std::ostream& out) const {
  CUdeviceptr none = 0;
  int on_stack = 0;
  out << "zero " << cuMemAlloc(&none, 0);
  out << " null " << cuMemFree(0);
  out << " interior " << cuMemFree(live + 1);
  out << " host's " << cuMemFree(reinterpret_cast<CUdeviceptr>(&on_stack));
  CUdeviceptr twice = 0;
  out << " allocate " << cuMemAlloc(&twice, 4096) << " free " << cuMemFree(twice) << " again " << cuMemFree(twice);
  out << " null in stream " << cuMemFreeAsync(0, nullptr) << " again in stream " << cuMemFreeAsync(twice, nullptr);
}

// An address that nothing can be mapped at.
CUresult Machine::IllegalAccess(const Op& op) {
  lost_ = true;
  const Where where = At(op.args[0]);
  // The launch itself may tell of the error or not: only the wait for it is sure to.
  LaunchFill(Current().kernels, where, 16, 1, 4);
  return where.calls->synchronize(where.stream);
}

void Machine::Codes(const Op& op, std::ostream& out) {
  Block& block = blocks_[op.args[0]];
  const Where where = At(op.args[1]);
  CUdeviceptr none = 0;
  std::size_t free = 0, total = 0;
  unsigned char byte = 0;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  out << "codes: allocate " << cuMemAlloc(&none, 4096) << ' ' << cuMemAlloc(&none, 4 << 20);
  out << " in stream " << where.calls->allocate_async(&none, 4096, where.stream);
  out << " managed " << cuMemAllocManaged(&none, 4096, CU_MEM_ATTACH_GLOBAL);
  out << " information " << cuMemGetInfo(&free, &total);
  out << " copy " << where.calls->to_host_now(&byte, block.address, 1) << ' '
      << where.calls->to_device_async(block.address, &byte, 1, where.stream);
  out << " memset " << where.calls->memset_async(block.address, 0, 1, where.stream);
  out << " launch " << LaunchFill(Current().kernels, where, block.address, 1, 1);
  out << " wait " << cuCtxSynchronize() << ' ' << where.calls->synchronize(where.stream) << ' '
      << where.calls->query(where.stream);
  out << " make " << cuStreamCreate(&stream, 0) << ' ' << cuEventCreate(&event, 0);
  const bool in_stream = block.made_by == OpKind::kAllocateAsync || block.made_by == OpKind::kAllocateFromPool;
  out << " free " << (in_stream ? where.calls->free_async(block.address, where.stream) : cuMemFree(block.address));
  out << " again " << cuMemFree(block.address) << " null " << cuMemFree(0);
}

}  // namespace cuheap::campaigns
