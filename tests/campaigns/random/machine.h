// The objects of a running program, by their numbers, and the operations on them (execute*.cc).
#ifndef CUHEAP_TESTS_CAMPAIGNS_RANDOM_MACHINE_H_
#define CUHEAP_TESTS_CAMPAIGNS_RANDOM_MACHINE_H_

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <ostream>

#include "tests/campaigns/random/calls.h"
#include "tests/campaigns/random/importer.h"
#include "tests/campaigns/random/kernels.h"
#include "tests/campaigns/random/program.h"

namespace cuheap::campaigns {

// Bytes on the host. They outlive the program's device work: what a copy reads or writes must not go away under it.
class HostBuffer {
 public:
  HostBuffer(std::size_t bytes, bool pinned);
  ~HostBuffer();
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;
  unsigned char* data() const { return static_cast<unsigned char*>(data_); }

 private:
  void* data_ = nullptr;
  bool pinned_;
};

// Objects of one kind. Numbers are never used twice, and pointers to what is in it stay valid; safe in several threads.
template <class Object>
class Objects {
 public:
  Object& operator[](std::int64_t number) {
    const std::lock_guard lock(mutex_);
    return objects_[number];
  }
  std::map<std::int64_t, Object>& all() { return objects_; }

 private:
  std::mutex mutex_;
  std::map<std::int64_t, Object> objects_;
};

class Machine {
 public:
  explicit Machine(const Program& program) : program_(program) { importers_[0].set_preloaded(false); }
  // What the operation prints goes to out; a failure that must not be, too.
  void Do(const Op& op, std::ostream& out);
  // Waits for everything and gives it all back, without a word.
  void CleanUp();

 private:
  struct Context {
    CUcontext handle = nullptr;
    int device = 0;
    int retained = 0;  // of the primary one
    bool destroyed = false;
    Kernels kernels;
  };
  struct Stream {
    CUstream handle = nullptr;
    std::int64_t context = -1;
  };
  struct Block {
    CUdeviceptr address = 0;
    std::size_t bytes = 0;
    std::int64_t context = -1;
    OpKind made_by = OpKind::kAllocate;
    bool live = false;
    int importer = -1;
    std::unique_ptr<unsigned char[]> registered;
  };
  struct Event {
    CUevent handle = nullptr;
    std::int64_t context = -1;
  };
  struct Graph {
    CUgraphExec handle = nullptr;
    std::int64_t context = -1;
  };
  struct Pool {
    CUmemoryPool handle = nullptr;
    int device = 0;
    bool by_default = false;
    bool live = false;
  };
  struct Physical {
    CUmemGenericAllocationHandle handle = 0;
    std::size_t bytes = 0;
    bool live = false;
  };
  struct Reservation {
    CUdeviceptr address = 0;
    std::size_t bytes = 0;
    bool live = false;
  };
  struct HostSlot {
    HostBuffer* buffer = nullptr;
    std::size_t bytes = 0;
  };

  CUresult DoContext(const Op& op);
  CUresult DoStream(const Op& op);
  CUresult DoMemory(const Op& op);
  CUresult DoPool(const Op& op, std::ostream& out);
  CUresult DoVirtual(const Op& op);
  CUresult DoWork(const Op& op);
  CUresult DoGraph(const Op& op);
  CUresult DoSynchronousWork(const Op& op);
  CUresult DoHost(const Op& op, std::ostream& out);
  CUresult DoElsewhere(const Op& op, std::ostream& out);
  CUresult DoAnswers(const Op& op, std::ostream& out);

  CUresult EnterContext(std::int64_t number);
  CUresult WaitFor(const Op& op);
  void Queries(const Block& block, std::ostream& out) const;
  void BadCalls(CUdeviceptr live, std::ostream& out) const;
  void PoolFacts(const Op& op, std::ostream& out);
  void Codes(const Op& op, std::ostream& out);
  CUresult IllegalAccess(const Op& op);

  Where At(std::int64_t stream);
  Context& Current();
  CUdeviceptr Address(std::int64_t block, std::int64_t offset) {
    return blocks_[block].address + static_cast<CUdeviceptr>(offset);
  }
  HostBuffer& NewHost(std::size_t bytes, bool pinned);
  // Host bytes that depend on the value alone.
  HostBuffer& RandomHost(std::size_t bytes, std::int64_t value, bool pinned);
  HostBuffer& Slot(std::int64_t number, std::size_t bytes, bool pinned);

  const Program& program_;
  Objects<Context> contexts_;
  Objects<Stream> streams_;
  Objects<Block> blocks_;
  Objects<Event> events_;
  Objects<Pool> pools_;
  Objects<Physical> physicals_;
  Objects<Reservation> reservations_;
  Objects<HostSlot> slots_;
  Objects<Graph> graphs_;
  Objects<std::unique_ptr<HostBuffer>> host_;
  std::array<Importer, 2> importers_;
  std::int64_t host_count_ = 0;
  std::mutex mutex_;  // host_count_
  bool lost_ = false;
};

// Fills words from a generator that starts with the value.
void FillRandom(unsigned char* to, std::size_t bytes, std::uint32_t value);
std::uint64_t Hash(const unsigned char* bytes, std::size_t size);

}  // namespace cuheap::campaigns

#endif  // CUHEAP_TESTS_CAMPAIGNS_RANDOM_MACHINE_H_
