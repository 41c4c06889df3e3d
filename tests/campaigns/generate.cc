#include <algorithm>
#include <array>
#include <ostream>
#include <random>
#include <set>

#include "tests/campaigns/program.h"

namespace cuheap::campaigns {
namespace {

// The pending accesses of one buffer or host slot: by which streams it may still be read or written.
struct Pending {
  std::set<int> readers, writers;
};

struct Buffer {
  std::uint64_t bytes = 0;
  bool live = false;
  int owner = -1;  // the thread that may touch it in this phase
  int home = 0;  // the stream that most of its work is in, in programs whose streams have little to do with each other
  bool async = false;    // stream-ordered
  int pool = 0;          // then
  bool watched = false;  // not touched again before it is read at the end of the phase
  Pending pending;
};

struct HostSlot {
  std::uint64_t bytes = 0;
  int owner = -1;
  bool filled = false;
  std::set<int> writers;  // streams with a copy into it under way
};

class Generator {
 public:
  Generator(std::uint64_t seed, const GenerateOptions& options)
      : random_(seed * 0x9E3779B97F4A7C15u + 1), options_(options) {
    program_.seed = seed;
    program_.threads = Chance(0.5) ? 1 : Between(2, 4);
    // Quiet programs read nothing back between their phases: no free of theirs has to wait for a copy, so that blocks
    // really are freed under running kernels.
    quiet_ = Chance(0.6);
    program_.pinned = !quiet_ && Chance(0.5);
    apart_ = Chance(0.5);
    const int streams_each = apart_ ? Between(2, 3) : Between(1, 3);
    program_.stream_blocking.push_back(true);
    for (int i = 0; i < streams_each * program_.threads; ++i)
      program_.stream_blocking.push_back(Chance(apart_ ? 0.1 : 0.5));
    streams_each_ = streams_each;
    synchronizing_ = Between(0, 2);
    program_.stream_ordered = options_.stream_ordered;
    if (!options_.stream_ordered) return;
    static constexpr std::array<std::uint64_t, 3> kThresholds{0, ~std::uint64_t{0}, 8u << 20};
    program_.threshold = kThresholds[Between(0, 2)];
    // Streams of one thread may be destroyed; others' must not name them meanwhile.
    for (int i = 0; i < streams_each_ && program_.threads == 1; ++i) {
      program_.stream_blocking.push_back(Chance(0.3));
      ++streams_each_;
      if (i >= 2) break;
    }
  }

  Program Run() {
    const int phases = Between(2, 5);
    const int each = std::max(4, options_.operations / (phases * program_.threads));
    for (int phase = 0; phase < phases; ++phase) {
      program_.phases.emplace_back(program_.threads);
      for (Buffer& buffer : buffers_) buffer.owner = Between(0, program_.threads - 1);
      for (int thread = 0; thread < program_.threads; ++thread) {
        thread_ = thread;
        ops_ = &program_.phases.back()[thread];
        for (int i = 0; i < each; ++i) Step();
        ReadRest(phase + 1 == phases);
      }
    }
    program_.buffers = static_cast<int>(buffers_.size());
    program_.host_slots = static_cast<int>(slots_.size());
    return std::move(program_);
  }

 private:
  int Between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool Chance(double p) { return std::uniform_real_distribution<double>(0, 1)(random_) < p; }

  int PickStream(int buffer = -1) {
    if (buffer >= 0 && apart_ && Chance(0.95)) return buffers_[buffer].home;
    if (Chance(apart_ ? 0.02 : 0.15)) return 0;
    for (;;) {
      const int stream = 1 + thread_ * streams_each_ + Between(0, streams_each_ - 1);
      if (!destroyed_.contains(stream)) return stream;
    }
  }

  int PickBuffer() {
    std::vector<int> mine;
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      if (buffers_[i].live && buffers_[i].owner == thread_ && !buffers_[i].watched) mine.push_back(static_cast<int>(i));
    }
    return mine.empty() ? -1 : mine[Between(0, static_cast<int>(mine.size()) - 1)];
  }

  std::uint64_t PickSize() {
    static constexpr std::array<std::array<int, 2>, 4> kRanges{
        {{4, 4096}, {4096, 300'000}, {300'000, 2'200'000}, {2'000'000, 6'000'000}}};
    // Few distinct sizes, so that freed memory is really asked for again.
    if (!sizes_.empty() && Chance(0.7)) return sizes_[Between(0, static_cast<int>(sizes_.size()) - 1)];
    const auto& range = kRanges[Between(0, 3)];
    const std::uint64_t bytes = static_cast<std::uint64_t>(Between(range[0], range[1])) / 4 * 4;
    sizes_.push_back(bytes);
    return bytes;
  }

  // Streams that are ordered with each other without an event: the same one, or the legacy stream with a blocking one.
  bool Ordered(int a, int b) const {
    if (a == b) return true;
    return (a == 0 && program_.stream_blocking[b]) || (b == 0 && program_.stream_blocking[a]);
  }

  void OrderAfter(int stream, const std::set<int>& others) {
    for (int other : others) {
      if (!Ordered(stream, other)) ops_->push_back({.kind = OpKind::kWait, .other = other, .stream = stream});
    }
  }

  void Access(int stream, int index, bool writes) {
    Pending& pending = buffers_[index].pending;
    OrderAfter(stream, pending.writers);
    if (!writes) {
      pending.readers.insert(stream);
      return;
    }
    OrderAfter(stream, pending.readers);
    pending.readers.clear();
    pending.writers = {stream};
  }

  void Step() {
    const int buffer = PickBuffer();
    const int dice = Between(0, 99);
    if (buffer < 0 || dice < 22) return Allocate();
    if (dice < 40) return Free(buffer);
    if (dice < 72) return Work(buffer);
    if (dice < 84) return quiet_ ? Work(buffer) : CopyOut(buffer);
    if (dice < 90) return ReadSome();
    if (dice < 92) return Emit({.kind = OpKind::kQueries, .buffer = buffer});
    if (options_.stream_ordered && dice == 92 && program_.threads == 1) return DestroyStream();
    if (dice < 93) {
      if (program_.threads == 1) Emit({.kind = OpKind::kBadCalls, .buffer = buffer});
      return;
    }
    Synchronize();
  }

  void Emit(Op op) { ops_->push_back(op); }

  void Allocate() { Allocate(PickSize(), PickStream(), false); }

  // pool: of stream-ordered memory; -1: any, or none.
  void Allocate(std::uint64_t bytes, int stream, bool watched, int pool = -1) {
    std::uint64_t live = 0;
    for (const Buffer& b : buffers_) live += b.live ? b.bytes : 0;
    if (live + bytes > options_.max_live) return;
    const int index = static_cast<int>(buffers_.size());
    buffers_.push_back(
        {.bytes = bytes, .live = true, .owner = thread_, .home = stream, .watched = watched, .pending = {}});
    if (options_.stream_ordered && (pool >= 0 || Chance(0.85))) {
      buffers_[index].async = true;
      buffers_[index].pool = pool >= 0 ? pool : Between(0, 1);
      Emit({.kind = OpKind::kAllocateAsync,
            .buffer = index,
            .other = buffers_[index].pool,
            .stream = stream,
            .bytes = bytes});
      buffers_[index].pending.writers = {stream};  // others may use it after that only
    } else {
      Emit({.kind = OpKind::kAllocate, .buffer = index, .bytes = bytes});
    }
    // Memory is not cleared by the driver, so nothing is read that was not written.
    Access(stream, index, true);
    Emit({.kind = OpKind::kMemset, .buffer = index, .stream = stream, .bytes = bytes, .value = Value() & 0xFF});
  }

  void Free(int index) {
    // The copies out of it may be under way, kernels may be running: a free waits for them, or must look as if it did.
    const bool waits = FreeInAnyWay(index);
    buffers_[index].live = false;
    if (waits && Chance(0.3)) {
      // Programs read the result of an asynchronous copy right after a free: the free is the only wait.
      for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
        if (slots_[slot].owner == thread_ && slots_[slot].filled) ReadSlot(static_cast<int>(slot));
      }
    }
    // What a loop does: the same size again at once, used by another stream than the one that may still be at work.
    // In quiet programs nobody else writes to it, so that late work of its forerunner would show.
    if (options_.stream_ordered && buffers_[index].async && !waits && freed_in_ >= 0) return ReuseElsewhere(index);
    if (Chance(0.5)) Allocate(buffers_[index].bytes, PickStream(), quiet_);
  }

  // The same size from the same pool in another stream, which gets ahead of the one that may still be at work.
  void ReuseElsewhere(int index) {
    const int stream = PickStream();
    if (Ordered(stream, freed_in_) || Chance(0.3)) return;
    Allocate(buffers_[index].bytes, stream, true, buffers_[index].pool);
    if (Chance(0.3)) return;
    Emit({.kind = OpKind::kStreamSynchronize, .stream = stream});
    ForgetOrdered(stream);
  }

  // True if the free waits for the device, as a free of synchronous memory does.
  bool FreeInAnyWay(int index) {
    freed_in_ = -1;
    const bool in_stream = options_.stream_ordered && Chance(buffers_[index].async ? 0.85 : 0.1);
    if (in_stream) {
      const int stream = PickStream(index);
      Access(stream, index, true);
      freed_in_ = stream;
      Emit({.kind = OpKind::kFreeAsync, .buffer = index, .stream = stream});
      return false;
    }
    if (buffers_[index]
            .async) {  // cuMemFree does not wait for these: "callers must ensure that all accesses have completed"
      std::set<int> streams = buffers_[index].pending.readers;
      streams.insert(buffers_[index].pending.writers.begin(), buffers_[index].pending.writers.end());
      for (int stream : streams) Emit({.kind = OpKind::kStreamSynchronize, .stream = stream});
    }
    Emit({.kind = OpKind::kFree, .buffer = index});
    return !buffers_[index].async;
  }

  // What is pending in it is pending in another one from now on, which waits for it.
  void DestroyStream() {
    const int stream = PickStream();
    if (stream == 0 || static_cast<int>(destroyed_.size()) + 2 > streams_each_) return;
    destroyed_.insert(stream);
    const int heir = PickStream();
    Emit({.kind = OpKind::kWait, .other = stream, .stream = heir});
    Emit({.kind = OpKind::kDestroyStream, .stream = stream});
    const auto inherit = [&](std::set<int>& streams) {
      if (streams.erase(stream) != 0) streams.insert(heir);
    };
    for (Buffer& buffer : buffers_) {
      inherit(buffer.pending.readers);
      inherit(buffer.pending.writers);
      if (buffer.home == stream) buffer.home = heir;
    }
    for (HostSlot& slot : slots_) inherit(slot.writers);
  }

  void Work(int index) {
    const int stream = PickStream(index);
    const std::uint64_t bytes = buffers_[index].bytes;
    const std::uint64_t offset =
        bytes < 64 ? 0 : static_cast<std::uint64_t>(Between(0, static_cast<int>(bytes / 8))) / 4 * 4;
    const std::uint64_t length = bytes - offset;
    const int kind = Between(0, 5);
    if (kind == 5) {
      const int target = PickBuffer();
      if (target == index) return;
      Access(stream, index, false);
      Access(stream, target, true);
      return Emit({.kind = OpKind::kDeviceToDevice,
                   .buffer = index,
                   .other = target,
                   .stream = stream,
                   .bytes = std::min(bytes, buffers_[target].bytes)});
    }
    static constexpr std::array kKinds{OpKind::kMemset, OpKind::kHostToDevice, OpKind::kFill, OpKind::kAdd,
                                       OpKind::kHiddenAdd};
    Access(stream, index, true);
    Emit({.kind = kKinds[kind],
          .buffer = index,
          .stream = stream,
          .offset = offset,
          .bytes = length,
          .value = kind == 0 ? Value() & 0xFF : Value(),
          .pinned = program_.pinned && Chance(0.5)});
  }

  std::uint32_t Value() { return static_cast<std::uint32_t>(random_()); }

  void CopyOut(int index) {
    const int stream = PickStream(index);
    Access(stream, index, false);
    const int slot = static_cast<int>(slots_.size());
    slots_.push_back({.bytes = buffers_[index].bytes, .owner = thread_, .filled = true, .writers = {stream}});
    Emit({.kind = OpKind::kDeviceToHost,
          .buffer = index,
          .other = slot,
          .stream = stream,
          .bytes = buffers_[index].bytes,
          .pinned = program_.pinned && Chance(0.5)});
  }

  void ReadSlot(int slot) {
    Emit({.kind = OpKind::kReadHost, .other = slot, .bytes = slots_[slot].bytes});
    slots_[slot].filled = false;
  }

  void ReadSome() {
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
      if (slots_[slot].owner != thread_ || !slots_[slot].filled || Chance(0.5)) continue;
      for (int stream : slots_[slot].writers) Emit({.kind = OpKind::kStreamSynchronize, .stream = stream});
      return ReadSlot(static_cast<int>(slot));
    }
  }

  void ForgetOrdered(int stream) {
    for (Buffer& buffer : buffers_) {
      if (buffer.owner != thread_) continue;
      buffer.pending.readers.erase(stream);
      buffer.pending.writers.erase(stream);
    }
  }

  void Synchronize() {
    // Some programs synchronise often, some hardly ever.
    if (synchronizing_ == 0 && Chance(0.8)) return;
    if (Chance(0.6)) {
      const int stream = PickStream();
      Emit({.kind = OpKind::kStreamSynchronize, .stream = stream});
      return ForgetOrdered(stream);
    }
    Emit({.kind = OpKind::kContextSynchronize});
    for (Buffer& buffer : buffers_) {
      if (buffer.owner == thread_) buffer.pending = {};
    }
  }

  // At the end of a phase every slot is read; at the end of the program, and between the phases of a quiet one, every
  // buffer is copied out, before and after the context is idle: work that ran too late shows in the second copy only.
  void ReadRest(bool last) {
    const bool all = last || quiet_;
    if (all) CopyOutAll();
    Emit({.kind = OpKind::kContextSynchronize});
    if (all) CopyOutAll();
    Emit({.kind = OpKind::kContextSynchronize});
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
      if (slots_[slot].owner == thread_ && slots_[slot].filled) ReadSlot(static_cast<int>(slot));
    }
    for (std::size_t i = 0; last && i < buffers_.size(); ++i) {
      if (buffers_[i].live && buffers_[i].owner == thread_ && Chance(0.7)) FreeInAnyWay(static_cast<int>(i));
    }
  }

  void CopyOutAll() {
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      if (buffers_[i].live && buffers_[i].owner == thread_) CopyOut(static_cast<int>(i));
      buffers_[i].watched &= buffers_[i].owner != thread_;
    }
  }

  std::mt19937_64 random_;
  GenerateOptions options_;
  Program program_;
  std::vector<Buffer> buffers_;
  std::vector<HostSlot> slots_;
  std::vector<std::uint64_t> sizes_;
  std::vector<Op>* ops_ = nullptr;
  std::set<int> destroyed_;
  int freed_in_ = -1;  // the stream of the last free, if it was in one
  int thread_ = 0;
  int streams_each_ = 1;
  int synchronizing_ = 1;
  bool quiet_ = false;
  bool apart_ = false;
};

const char* Name(OpKind kind) {
  static constexpr std::array kNames{"allocate",
                                     "free",
                                     "memset",
                                     "host_to_device",
                                     "device_to_device",
                                     "fill",
                                     "add",
                                     "hidden_add",
                                     "device_to_host",
                                     "read_host",
                                     "wait",
                                     "stream_synchronize",
                                     "context_synchronize",
                                     "queries",
                                     "bad_calls",
                                     "allocate_async",
                                     "free_async",
                                     "destroy_stream"};
  return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace

Program Generate(std::uint64_t seed, const GenerateOptions& options) { return Generator(seed, options).Run(); }

void Print(const Program& program, std::ostream& out) {
  out << "program " << program.seed << ": " << program.threads << " threads, " << program.stream_blocking.size()
      << " streams (non-blocking:";
  for (std::size_t i = 0; i < program.stream_blocking.size(); ++i) {
    if (!program.stream_blocking[i]) out << ' ' << i;
  }
  out << ")\n";
  for (std::size_t phase = 0; phase < program.phases.size(); ++phase) {
    for (std::size_t thread = 0; thread < program.phases[phase].size(); ++thread) {
      out << "phase " << phase << " thread " << thread << '\n';
      for (const Op& op : program.phases[phase][thread]) {
        out << "  " << Name(op.kind);
        if (op.buffer >= 0) out << " buffer=" << op.buffer;
        if (op.other >= 0) out << " other=" << op.other;
        if (op.stream >= 0) out << " stream=" << op.stream;
        if (op.bytes) out << " offset=" << op.offset << " bytes=" << op.bytes;
        if (op.value) out << " value=" << op.value;
        out << (op.pinned ? " pinned\n" : "\n");
      }
    }
  }
}

}  // namespace cuheap::campaigns
