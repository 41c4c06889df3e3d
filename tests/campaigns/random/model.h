// What CUDA's documentation says of a program: is its next operation legal, and is what it prints determined?
//
// The generator asks before it emits an operation; a program that was shortened goes through the same rules, which drop
// what is no longer legal (a use of a block that nobody allocates any more, a read that nothing waits for).
//
// Order is told by vector clocks. Work in a stream comes after everything before it in the stream and after what its
// thread has waited for; the legacy default stream interlocks with the blocking streams of its context (CUDA Driver
// API, "Stream synchronization behavior"). Between two meets a thread knows what it and everyone did before the last
// meet: what other threads do meanwhile is in no order with it, so an object belongs to one thread until they meet.
#ifndef CUHEAP_TESTS_CAMPAIGNS_RANDOM_MODEL_H_
#define CUHEAP_TESTS_CAMPAIGNS_RANDOM_MODEL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/campaigns/random/clock.h"
#include "tests/campaigns/random/program.h"

namespace cuheap::campaigns {

// Belongs to the thread that touches it first in a phase (from one meet to the next).
struct Owned {
  bool live = false;
  int phase = -1;
  int thread = -1;
};

enum class MemoryKind : std::uint8_t { kDevice, kStreamOrdered, kVirtual, kManaged, kHost, kRegistered };

struct Memory : Owned {
  MemoryKind kind = MemoryKind::kDevice;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;   // of a mapping in its reservation
  std::int64_t context = -1;  // of kDevice, kManaged, kHost and kRegistered
  int device = -1;
  std::int64_t pool = -1;  // of kStreamOrdered; -1: the device's default pool, while no operation named it
  std::int64_t reservation = -1;
  std::int64_t physical = -1;
  std::uint64_t access = 0;  // devices that may use kVirtual memory, a bit each
  bool defined = false;      // every byte was written
  int elsewhere = -1;        // open in another process: 0 without LD_PRELOAD, 1 with it
  bool of_graph = false;     // made by an allocation node: it lives while the graph runs
  std::vector<Moment> writers, readers;
};

struct Physical : Owned {
  std::uint64_t bytes = 0;
  int device = -1;
  bool defined = false;
  bool mapped = false;
};

struct Reservation : Owned {
  std::uint64_t bytes = 0;
};

struct Pool : Owned {
  int device = -1;
  bool by_default = false;
  std::uint64_t access = 0;
};

struct Stream : Owned {
  std::int64_t context = -1;
  bool blocking = true;
};

struct Context : Owned {
  int device = -1;
  bool primary = false;
  std::set<std::int64_t> peers;  // contexts whose memory it may use
};

struct HostBytes : Owned {
  std::uint64_t bytes = 0;
  std::int64_t context = -1;  // of pinned ones
  Moment writer;
};

struct Event : Owned {
  std::int64_t context = -1;
  Clock clock;
};

// What one piece of work does to a block.
struct Use {
  std::int64_t block = -1;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  bool reads = false;
  bool writes = false;
};

struct Graph : Owned {
  std::int64_t context = -1;
  std::vector<std::vector<Use>> work;  // in the order of the stream; without blocks of the graph's own
  std::vector<Moment> launches;
};

class Model {
 public:
  explicit Model(const Program& header);

  // Applies the operation, or says why it may not come next; then nothing has changed.
  std::string Apply(const Op& op);

  // ---- for the generator ----
  template <class Object>
  using Table = std::map<std::int64_t, Object>;
  const Table<Memory>& memories() const { return memories_; }
  const Table<Physical>& physicals() const { return physicals_; }
  const Table<Reservation>& reservations() const { return reservations_; }
  const Table<Pool>& pools() const { return pools_; }
  const Table<Stream>& streams() const { return streams_; }
  const Table<Context>& contexts() const { return contexts_; }
  const Table<HostBytes>& host() const { return host_; }
  const Table<Graph>& graphs() const { return graphs_; }
  bool capturing() const { return capture_ != nullptr; }
  std::int64_t current(int thread) const { return views_[static_cast<std::size_t>(thread)].current; }
  int phase() const { return phase_; }
  // Could the thread touch it now?
  bool Free(const Owned& object, int thread) const {
    return object.live && (object.phase != phase_ || object.thread == thread);
  }
  std::uint64_t charged(int device) const { return charged_[static_cast<std::size_t>(device)]; }
  // May work in a stream of the context use the memory?
  bool Accessible(const Memory& memory, std::int64_t context) const;
  // The context of a stream as the thread uses it.
  std::int64_t ContextOf(int thread, std::int64_t stream) const;
  // Accesses of the memory that work in the stream would have to come after, and does not yet.
  std::vector<Moment> Unordered(int thread, std::int64_t stream, const Memory& memory, bool writes) const;
  std::vector<Moment> UnorderedForHost(int thread, const Memory& memory, bool writes) const;
  bool HostKnows(int thread, Moment moment) const { return View(thread).host.Covers(moment); }
  bool HostMayRead(int thread, Moment moment) const {
    return HostKnows(thread, moment) || View(thread).readable.Covers(moment);
  }
  // The stream (kNullStream, kPerThreadStream of their context and thread) in which it happened.
  struct Source {
    std::int64_t stream = kNullStream;
    std::int64_t context = -1;  // -1: not in a stream
    int thread = 0;
  };
  Source SourceOf(Moment moment) const;
  // Does new work in the stream come after the moment?
  bool StreamKnows(int thread, std::int64_t stream, Moment moment) const;
  std::uint64_t LiveIn(std::int64_t pool) const;  // bytes

  // What a device is charged for a request.
  static std::uint64_t Charge(std::uint64_t bytes);
  // Of the device, what programs that count its memory use at most.
  std::uint64_t limit() const { return header_.memory / 4 * 3; }

 private:
  // What a thread knows. Streams by their numbers; default streams by context.
  struct Knowledge {
    std::int64_t current = -1;
    Clock host;
    Clock readable;  // beside it: work whose results on the host are there, though nothing else may rely on its end
    // tail: what new work in the stream comes after; work: what its last piece of work came after, and itself.
    struct Progress {
      Clock tail, work;
    };
    std::map<std::int64_t, Progress> streams;
  };
  const Knowledge& View(int thread) const { return views_[static_cast<std::size_t>(thread)]; }
  Knowledge& View(int thread) { return views_[static_cast<std::size_t>(thread)]; }

  std::string Dispatch(const Op& op);
  void Meet();
  std::string ApplyContext(const Op& op);
  std::string ApplyStream(const Op& op);
  std::string ApplyWait(const Op& op);
  std::string ApplyMemory(const Op& op);
  std::string ApplyFree(const Op& op);
  std::string ApplyPool(const Op& op);
  std::string ApplyVirtual(const Op& op);
  std::string ApplyMapping(const Op& op);
  std::string ApplyWork(const Op& op);
  std::string ApplyHost(const Op& op);
  std::string ApplyGraph(const Op& op);
  std::string BeginCapture(const Op& op);
  std::string EndCapture(const Op& op);
  std::string ApplyInCapture(const Op& op);
  std::string ApplyCaptured(const Op& op, const std::vector<Use>& uses);
  std::string ApplyElsewhere(const Op& op);
  std::string ApplyAnswers(const Op& op);

  std::string NewBlock(const Op& op, Memory memory);
  std::string UseInStream(const Op& op, std::int64_t stream, const std::vector<Use>& uses,
                          bool between_devices = false);
  std::string UseByHost(const Op& op, const Use& use);
  std::string NewHostBytes(const Op& op, std::int64_t number, std::int64_t stream, std::uint64_t bytes, bool pinned);
  std::string CheckUse(const Op& op, std::int64_t stream, const Use& use, bool between_devices) const;
  struct Described {
    std::int64_t stream;
    std::vector<Use> uses;
  };
  // Work on blocks alone, which may be captured; empty: another operation, or bytes that are no words.
  static std::optional<Described> Describe(const Op& op);
  std::string CheckStream(int thread, std::int64_t stream, bool in_current_context) const;
  bool FitsIn(int device, std::uint64_t bytes) const;
  // Only this thread does anything in this phase.
  bool Alone(int thread) const;
  void Touch(Owned& object, int thread) const;
  void Gone(Memory& memory);
  void ContextGone(std::int64_t context);

  // Streams by one number each: those that operations made by their own, default streams by context (and thread).
  std::int64_t Key(int thread, std::int64_t stream) const;
  std::int64_t ContextOfKey(std::int64_t key) const;
  bool Blocking(std::int64_t key) const;
  Clock Start(int thread, std::int64_t stream) const;
  Moment Enqueue(int thread, std::int64_t stream);
  // An allocation or a free in a stream. Whether it counts as an action by which the legacy default stream interlocks
  // with others is not documented: nothing may rely on it.
  Moment EnqueueQuietly(int thread, std::int64_t stream);
  void HostWaits(int thread, std::int64_t stream);
  void HostWaitsForContext(int thread, std::int64_t context);
  // "May perform implicit synchronization" (CUDA Runtime API, cudaFree): programs read what was copied to the host
  // right after it, and cuheap keeps that; that it orders streams is nobody's promise.
  void FreeWaitsForContext(int thread, std::int64_t context);
  std::size_t Agent(std::int64_t key, int thread);
  static void Access(Memory& memory, Moment moment, bool writes);

  Program header_;  // without operations
  int phase_ = 0;
  std::set<int> active_;  // threads that did something in this phase
  int alone_ = -1;        // the thread that must be the only one in it
  bool lost_ = false;     // an error stays: nothing but kCodes
  struct Capture {
    std::int64_t stream;
    std::int64_t mode;
    Graph graph;
    std::set<std::int64_t> blocks;  // of its own, not freed yet
  };
  std::unique_ptr<Capture> capture_;  // the one that is open
  std::vector<Knowledge> views_;
  std::map<std::pair<std::int64_t, int>, std::size_t> agents_;
  std::vector<std::int64_t> agent_context_;  // -1: a thread
  std::vector<std::uint64_t> charged_;       // by device; blocks freed in a stream count until the host has waited
  std::vector<std::uint64_t> held_;          // the bytes of live blocks alone
  std::vector<std::uint64_t> freed_in_stream_;
  std::vector<std::int64_t> current_pool_;
  Table<Context> contexts_;
  Table<Stream> streams_;
  Table<Event> events_;
  Table<Memory> memories_;
  Table<Pool> pools_;
  Table<Physical> physicals_;
  Table<Reservation> reservations_;
  Table<HostBytes> host_;
  Table<Graph> graphs_;
};

// The program without the operations that are not legal where they stand.
Program LegalPart(const Program& program);

}  // namespace cuheap::campaigns

#endif  // CUHEAP_TESTS_CAMPAIGNS_RANDOM_MODEL_H_
