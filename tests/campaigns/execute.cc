#include "tests/campaigns/execute.h"

#include <cuda.h>

#include <algorithm>
#include <barrier>
#include <cstring>
#include <memory>
#include <mutex>
#include <sstream>
#include <thread>
#include <vector>

#include "tests/campaigns/kernels.h"

namespace cuheap::campaigns {
namespace {

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

// Host memory of one copy. It outlives the program's device work: what a copy reads or writes must not go away under
// it.
class HostBuffer {
 public:
  HostBuffer(std::size_t bytes, bool pinned) : bytes_(bytes), pinned_(pinned) {
    if (pinned_ && cuMemHostAlloc(&data_, bytes, 0) == CUDA_SUCCESS) return;
    pinned_ = false;
    data_ = std::calloc(1, bytes);
  }
  ~HostBuffer() {
    if (pinned_) {
      cuMemFreeHost(data_);
    } else {
      std::free(data_);
    }
  }
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;
  unsigned char* data() const { return static_cast<unsigned char*>(data_); }
  std::size_t size() const { return bytes_; }

  void Fill(std::uint32_t seed) {
    std::uint32_t x = seed | 1;
    for (std::size_t i = 0; i + 4 <= bytes_; i += 4) {
      x ^= x << 13, x ^= x >> 17, x ^= x << 5;
      std::memcpy(data() + i, &x, 4);
    }
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
  bool pinned_;
};

class Executor {
 public:
  explicit Executor(const Program& program)
      : program_(program),
        buffers_(program.buffers),
        sizes_(program.buffers),
        slots_(program.host_slots),
        output_(program.threads) {}

  std::string Run() {
    Require(cuInit(0), "cuInit");
    Require(cuCtxCreate(&context_, nullptr, 0, 0), "cuCtxCreate");
    streams_.push_back(nullptr);
    for (std::size_t i = 1; i < program_.stream_blocking.size(); ++i) {
      CUstream stream;
      Require(cuStreamCreate(&stream, program_.stream_blocking[i] ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING),
              "stream");
      streams_.push_back(stream);
    }
    kernels_ = LoadKernels();
    if (program_.stream_ordered) MakePools();
    std::barrier meet(program_.threads);
    std::vector<std::thread> threads;
    for (int thread = 0; thread < program_.threads; ++thread) {
      threads.emplace_back([&, thread] {
        cuCtxSetCurrent(context_);
        for (const auto& phase : program_.phases) {
          for (const Op& op : phase[thread]) Do(op, output_[thread]);
          meet.arrive_and_wait();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    Require(cuCtxSynchronize(), "last synchronize");
    host_.clear();
    if (pool_ != nullptr) Require(cuMemPoolDestroy(pool_), "cuMemPoolDestroy");
    Require(cuCtxDestroy(context_), "cuCtxDestroy");
    std::ostringstream all;
    for (int thread = 0; thread < program_.threads; ++thread)
      all << "thread " << thread << '\n' << output_[thread].str();
    return all.str();
  }

 private:
  void Require(CUresult result, const char* what) {
    if (result == CUDA_SUCCESS) return;
    const std::lock_guard lock(mutex_);
    output_[0] << "FAILED " << what << ' ' << result << '\n';
  }
  void MakePools() {
    CUmemPoolProps properties = {};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    Require(cuMemPoolCreate(&pool_, &properties), "cuMemPoolCreate");
    CUmemoryPool by_default = nullptr;
    Require(cuDeviceGetDefaultMemPool(&by_default, 0), "default pool");
    std::uint64_t threshold = program_.threshold;
    for (CUmemoryPool pool : {pool_, by_default}) {
      Require(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold), "threshold");
    }
  }
  static void Check(CUresult result, const Op& op, std::ostream& out) {
    if (result != CUDA_SUCCESS) out << "error " << result << " in op " << static_cast<int>(op.kind) << '\n';
  }

  HostBuffer& NewHost(std::size_t bytes, bool pinned) {
    auto host = std::make_unique<HostBuffer>(bytes, pinned);
    const std::lock_guard lock(mutex_);
    return *host_.emplace_back(std::move(host));
  }

  void Do(const Op& op, std::ostream& out) {
    CUstream stream = op.stream >= 0 ? streams_[op.stream] : nullptr;
    const CUdeviceptr at = op.buffer >= 0 ? buffers_[op.buffer] + op.offset : 0;
    switch (op.kind) {
      case OpKind::kAllocate:
        sizes_[op.buffer] = op.bytes;
        return Check(cuMemAlloc(&buffers_[op.buffer], op.bytes), op, out);
      case OpKind::kFree:
        return Check(cuMemFree(buffers_[op.buffer]), op, out);
      case OpKind::kAllocateAsync:
        sizes_[op.buffer] = op.bytes;
        return Check(op.other == 1 ? cuMemAllocFromPoolAsync(&buffers_[op.buffer], op.bytes, pool_, stream)
                                   : cuMemAllocAsync(&buffers_[op.buffer], op.bytes, stream),
                     op, out);
      case OpKind::kFreeAsync:
        return Check(cuMemFreeAsync(buffers_[op.buffer], stream), op, out);
      case OpKind::kDestroyStream:
        streams_[op.stream] = nullptr;
        return Check(cuStreamDestroy(stream), op, out);
      case OpKind::kMemset:
        return Check(cuMemsetD8Async(at, static_cast<unsigned char>(op.value), op.bytes, stream), op, out);
      case OpKind::kHostToDevice: {
        HostBuffer& host = NewHost(op.bytes, op.pinned);
        host.Fill(op.value);
        return Check(cuMemcpyHtoDAsync(at, host.data(), op.bytes, stream), op, out);
      }
      case OpKind::kDeviceToDevice:
        return Check(cuMemcpyDtoDAsync(buffers_[op.other], at, op.bytes, stream), op, out);
      case OpKind::kFill:
        return Check(LaunchFill(kernels_, stream, at, op.value, op.bytes / 4), op, out);
      case OpKind::kAdd:
        return Check(LaunchAdd(kernels_, stream, at, op.value, op.bytes / 4), op, out);
      case OpKind::kHiddenAdd:
        return Check(LaunchHiddenAdd(kernels_, stream, at, op.value, op.bytes / 4), op, out);
      case OpKind::kDeviceToHost: {
        HostBuffer& host = NewHost(op.bytes, op.pinned);
        slots_[op.other] = &host;
        return Check(cuMemcpyDtoHAsync(host.data(), at, op.bytes, stream), op, out);
      }
      case OpKind::kReadHost:
        out << "read " << op.other << ' ' << std::hex << Hash(slots_[op.other]->data(), op.bytes) << std::dec << '\n';
        return;
      case OpKind::kWait:
        return Wait(stream, streams_[op.other], op, out);
      case OpKind::kStreamSynchronize:
        return Check(cuStreamSynchronize(stream), op, out);
      case OpKind::kContextSynchronize:
        return Check(cuCtxSynchronize(), op, out);
      case OpKind::kQueries:
        return Queries(at, sizes_[op.buffer], out);
      case OpKind::kBadCalls:
        return BadCalls(at, out);
    }
  }

  void Wait(CUstream waiting, CUstream on, const Op& op, std::ostream& out) {
    CUevent event;
    Check(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), op, out);
    Check(cuEventRecord(event, on), op, out);
    Check(cuStreamWaitEvent(waiting, event, 0), op, out);
    Check(cuEventDestroy(event), op, out);
  }

  static void Queries(CUdeviceptr address, std::size_t size, std::ostream& out) {
    CUdeviceptr base = 0;
    std::size_t bytes = 0;
    const CUresult range = cuMemGetAddressRange(&base, &bytes, address + size / 2);
    out << "range " << range << ' ' << (address - base) << ' ' << bytes;
    CUdeviceptr start = 0;
    const CUresult got = cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address + size / 2);
    std::size_t range_bytes = 0;
    cuPointerGetAttribute(&range_bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address + size / 2);
    unsigned long long first_id = 0, last_id = 0;
    cuPointerGetAttribute(&first_id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address);
    cuPointerGetAttribute(&last_id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address + size - 1);
    unsigned type = 0;
    cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
    out << " attributes " << got << ' ' << (address - start) << ' ' << range_bytes << ' ' << (first_id == last_id)
        << ' ' << type << '\n';
  }

  static void BadCalls(CUdeviceptr live, std::ostream& out) {
    CUdeviceptr none = 0;
    out << "zero " << cuMemAlloc(&none, 0);
    out << " null " << cuMemFree(0);
    out << " interior " << cuMemFree(live + 1);
    CUdeviceptr twice = 0;
    out << " allocate " << cuMemAlloc(&twice, 4096) << " free " << cuMemFree(twice) << " again " << cuMemFree(twice)
        << '\n';
  }

  const Program& program_;
  CUcontext context_ = nullptr;
  CUmemoryPool pool_ = nullptr;
  Kernels kernels_{};
  std::vector<CUstream> streams_;
  std::vector<CUdeviceptr> buffers_;
  std::vector<std::size_t> sizes_;
  std::vector<HostBuffer*> slots_;
  std::vector<std::ostringstream> output_;
  std::mutex mutex_;  // host_
  std::vector<std::unique_ptr<HostBuffer>> host_;
};

}  // namespace

std::string Execute(const Program& program) { return Executor(program).Run(); }

}  // namespace cuheap::campaigns
