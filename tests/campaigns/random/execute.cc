#include "tests/campaigns/random/execute.h"

#include <algorithm>
#include <barrier>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <thread>
#include <vector>

#include "tests/campaigns/random/machine.h"

namespace cuheap::campaigns {

std::uint64_t Hash(const unsigned char* bytes, std::size_t size) {
  std::uint64_t hash = 14695981039346656037u;  // FNV-1a over 8 bytes at a time
  for (std::size_t i = 0; i < size; i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + i, std::min<std::size_t>(8, size - i));
    hash = (hash ^ word) * 1099511628211u;
    hash ^= hash >> 29;
  }
  return hash;
}

void FillRandom(unsigned char* to, std::size_t bytes, std::uint32_t value) {
  std::uint32_t x = value | 1;
  for (std::size_t i = 0; i + 4 <= bytes; i += 4) {
    x ^= x << 13, x ^= x >> 17, x ^= x << 5;
    std::memcpy(to + i, &x, 4);
  }
}

HostBuffer::HostBuffer(std::size_t bytes, bool pinned) : pinned_(pinned) {
  if (pinned_ && cuMemHostAlloc(&data_, bytes, 0) == CUDA_SUCCESS) return;
  pinned_ = false;
  data_ = std::calloc(1, bytes);
}

HostBuffer::~HostBuffer() {
  if (pinned_) {
    cuMemFreeHost(data_);
  } else {
    std::free(data_);
  }
}

HostBuffer& Machine::NewHost(std::size_t bytes, bool pinned) {
  std::int64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = host_count_++;
  }
  std::unique_ptr<HostBuffer>& slot = host_[number];
  slot = std::make_unique<HostBuffer>(bytes, pinned);
  return *slot;
}

HostBuffer& Machine::RandomHost(std::size_t bytes, std::int64_t value, bool pinned) {
  HostBuffer& host = NewHost(bytes, pinned);
  FillRandom(host.data(), bytes, static_cast<std::uint32_t>(value));
  return host;
}

HostBuffer& Machine::Slot(std::int64_t number, std::size_t bytes, bool pinned) {
  HostSlot& slot = slots_[number];
  slot.bytes = bytes;
  slot.buffer = &NewHost(bytes, pinned);
  return *slot.buffer;
}

Where Machine::At(std::int64_t stream) {
  switch (stream) {
    case kNullStream:
      return {};
    case kLegacyStream:
      return {&kPlainCalls, CU_STREAM_LEGACY};
    case kNullPtsz:
      return {&kPerThreadCalls, nullptr};
    case kPerThreadStream:
      return {&kPlainCalls, CU_STREAM_PER_THREAD};
    default:
      return {&kPlainCalls, streams_[stream].handle};
  }
}

Machine::Context& Machine::Current() {
  CUcontext handle = nullptr;
  cuCtxGetCurrent(&handle);
  for (auto& [number, context] : contexts_.all()) {
    if (context.handle == handle && !context.destroyed) return context;
  }
  std::abort();  // the program's rules say that one is current
}

void Machine::Do(const Op& op, std::ostream& out) {
  CUresult result = CUDA_SUCCESS;
  if (op.kind <= OpKind::kEnablePeer) {
    result = DoContext(op);
  } else if (op.kind <= OpKind::kContextSynchronize) {
    result = DoStream(op);
  } else if (op.kind <= OpKind::kFreeAsync) {
    result = DoMemory(op);
  } else if (op.kind <= OpKind::kDestroyPool) {
    result = DoPool(op, out);
  } else if (op.kind <= OpKind::kFreeAddresses) {
    result = DoVirtual(op);
  } else if (op.kind <= OpKind::kHostFunction) {
    result = DoWork(op);
  } else if (op.kind <= OpKind::kDestroyGraph) {
    result = DoGraph(op);
  } else if (op.kind <= OpKind::kDeviceToHostNow) {
    result = DoSynchronousWork(op);
  } else if (op.kind <= OpKind::kHostWrites) {
    result = DoHost(op, out);
  } else if (op.kind <= OpKind::kCloseElsewhere) {
    result = DoElsewhere(op, out);
  } else {
    result = DoAnswers(op, out);
  }
  if (result != CUDA_SUCCESS) out << "error " << result;
}

std::string Execute(const Program& program) {
  Machine machine(program);
  std::vector<std::string> printed(program.ops.size());
  if (const CUresult result = cuInit(0); result != CUDA_SUCCESS) return "0 error " + std::to_string(result) + '\n';
  std::barrier meet(program.threads);
  const auto run = [&](int thread) {
    for (std::size_t i = 0; i < program.ops.size(); ++i) {
      if (program.ops[i].kind == OpKind::kMeet) {
        meet.arrive_and_wait();
      } else if (program.ops[i].thread == thread) {
        std::ostringstream out;
        machine.Do(program.ops[i], out);
        printed[i] = out.str();
      }
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(program.threads));
  // Every thread is new, so that its own default stream and current context are.
  for (int thread = 0; thread < program.threads; ++thread) threads.emplace_back(run, thread);
  for (std::thread& thread : threads) thread.join();
  machine.CleanUp();
  std::ostringstream all;
  for (std::size_t i = 0; i < printed.size(); ++i) {
    if (!printed[i].empty()) all << i + 1 << ' ' << printed[i] << '\n';
  }
  return all.str();
}

void Machine::CleanUp() {
  if (lost_) {
    // Nothing works any more, but a host function or a copy may still be running: what they write to stays.
    for (auto& [number, host] : host_.all()) host.release();
    for (auto& [number, block] : blocks_.all()) block.registered.release();
    return;
  }
  for (auto& [number, context] : contexts_.all()) {
    if (context.destroyed) continue;
    cuCtxSetCurrent(context.handle);
    cuCtxSynchronize();
  }
  for (auto& [number, block] : blocks_.all()) {
    if (block.live && block.importer >= 0) importers_[static_cast<std::size_t>(block.importer)].Close(number);
  }
  for (auto& [number, graph] : graphs_.all()) {
    if (graph.handle != nullptr) cuGraphExecDestroy(graph.handle);
  }
  for (auto& [number, block] : blocks_.all()) {
    if (!block.live) continue;
    if (block.made_by == OpKind::kMap) {
      cuMemUnmap(block.address, block.bytes);
    } else if (block.made_by == OpKind::kHostAllocate) {
      cuMemFreeHost(reinterpret_cast<void*>(block.address));
    } else if (block.made_by == OpKind::kHostRegister) {
      cuMemHostUnregister(block.registered.get());
    } else {
      cuMemFree(block.address);
    }
  }
  for (auto& [number, physical] : physicals_.all()) {
    if (physical.live) cuMemRelease(physical.handle);
  }
  for (auto& [number, reservation] : reservations_.all()) {
    if (reservation.live) cuMemAddressFree(reservation.address, reservation.bytes);
  }
  host_.all().clear();
  for (int device = 0; device < program_.devices && !pools_.all().empty(); ++device) {
    CUmemoryPool pool = nullptr;
    cuDeviceGetDefaultMemPool(&pool, device);
    cuDeviceSetMemPool(device, pool);
    std::uint64_t threshold = 0;
    cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
    for (int peer = 0; peer < program_.devices; ++peer) {
      CUmemAccessDesc none{{CU_MEM_LOCATION_TYPE_DEVICE, {peer}}, CU_MEM_ACCESS_FLAGS_PROT_NONE};
      if (peer != device) cuMemPoolSetAccess(pool, &none, 1);
    }
  }
  for (auto& [number, pool] : pools_.all()) {
    if (pool.live && !pool.by_default) cuMemPoolDestroy(pool.handle);
  }
  for (auto& [number, context] : contexts_.all()) {
    if (context.destroyed) continue;
    if (context.retained == 0) cuCtxDestroy(context.handle);
    for (int i = 0; i < context.retained; ++i) cuDevicePrimaryCtxRelease(context.device);
  }
  cuCtxSetCurrent(nullptr);
}

}  // namespace cuheap::campaigns
