// Random legal CUDA programs, as data: generated from a seed, printed, executed.
//
// A program is a list of phases. Within a phase every host thread runs its own operations, concurrently, on buffers
// that no other thread touches in that phase; between phases all threads meet. What a program prints (results of calls,
// hashes of the bytes it read back) depends on nothing but its seed: not on addresses, not on the interleaving of
// threads, not on the order in which streams run, because every access that another stream could race with is ordered
// by an event, a wait or a synchronisation. So any difference between two runs is a fault of what lies beneath.
#ifndef CUHEAP_TESTS_CAMPAIGNS_PROGRAM_H_
#define CUHEAP_TESTS_CAMPAIGNS_PROGRAM_H_

#include <cstdint>
#include <iosfwd>
#include <vector>

namespace cuheap::campaigns {

enum class OpKind : std::uint8_t {
  kAllocate,           // buffer, bytes
  kFree,               // buffer: the device may still be using it
  kMemset,             // buffer[offset, offset + bytes) = value, on stream
  kHostToDevice,       // buffer[offset, ...) from host slot filled with PRNG(value); pinned or pageable
  kDeviceToDevice,     // buffer -> other
  kFill,               // kernel: buffer words = value
  kAdd,                // kernel: buffer words = words * (value | 1) + value: orders do not commute
  kHiddenAdd,          // the same, through a road that hooks don't see
  kDeviceToHost,       // buffer -> host slot `other`, asynchronously
  kReadHost,           // prints the hash of host slot `other`
  kWait,               // stream waits for everything now in stream `other`
  kStreamSynchronize,  // stream
  kContextSynchronize,
  kQueries,   // prints what identity queries say of the buffer
  kBadCalls,  // zero size, interior free, double free: prints their codes
  kAllocateAsync,  // buffer, bytes, stream; from the pool of the program's own if other is 1
  kFreeAsync,      // buffer, stream
  kDestroyStream,  // stream
};

struct Op {
  OpKind kind;
  std::int32_t buffer = -1;
  std::int32_t other = -1;  // second buffer, host slot, or stream
  std::int32_t stream = -1;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint32_t value = 0;
  bool pinned = false;
};

struct Program {
  std::uint64_t seed = 0;
  int threads = 1;
  int buffers = 0;
  int host_slots = 0;
  bool stream_ordered = false;        // uses stream-ordered memory
  std::uint64_t threshold = 0;        // release threshold of its pools; 0: as they are made
  bool pinned = false;                // uses pinned host memory at all: with it, a free must wait for kernels too
  std::vector<bool> stream_blocking;  // per stream; stream 0 is the legacy default stream
  std::vector<std::vector<std::vector<Op>>> phases;  // [phase][thread]
};

struct GenerateOptions {
  int operations = 160;                // about, over all threads
  std::uint64_t max_live = 96u << 20;  // bytes held at any time, about
  bool stream_ordered = false;         // most buffers come from cuMemAllocAsync; streams are destroyed, too
};

Program Generate(std::uint64_t seed, const GenerateOptions& options);
void Print(const Program& program, std::ostream& out);

}  // namespace cuheap::campaigns

#endif  // CUHEAP_TESTS_CAMPAIGNS_PROGRAM_H_
