// What allocates and frees; pools, contexts, mapped memory.
#include <algorithm>
#include <array>

#include "tests/campaigns/random/generator.h"

namespace cuheap::campaigns {
namespace {

constexpr std::int64_t kPage = 2 << 20;

}  // namespace

// ---- blocks that come ----

bool Generator::Allocate() { return Allocate(PickSize(), PickStream(), false, -1); }

// pool: of stream-ordered memory; -1: any, or none.
bool Generator::Allocate(std::uint64_t bytes, std::int64_t stream, bool watched, std::int64_t pool) {
  if (!Fits(bytes)) return false;
  const std::int64_t block = New('b');
  const auto size = static_cast<std::int64_t>(bytes);
  bool made = false;
  if (profile_.stream_ordered && (pool >= 0 || Chance(profile_.share))) {
    std::vector<std::int64_t> pools;
    for (const auto& [number, known] : model_.pools()) {
      if (known.live && known.device == model_.contexts().at(model_.current(thread_)).device) pools.push_back(number);
    }
    if (pool < 0 && !pools.empty() && Chance(0.6)) pool = OneOf(pools);
    made = pool >= 0 ? Emit(OpKind::kAllocateFromPool, {block, size, pool, stream})
                     : Emit(OpKind::kAllocateAsync, {block, size, stream});
  } else if (Chance(0.05)) {
    made = Emit(OpKind::kAllocatePitch, {block, std::min<std::int64_t>(size, 4096), (size + 4095) / 4096});
  } else {
    made = Emit(OpKind::kAllocate, {block, size});
  }
  if (!made) return false;
  plans_[block] = {stream, thread_, watched};
  return Clear(block, stream);
}

// Memory is not cleared by the driver, so nothing is read that was not written.
bool Generator::Clear(std::int64_t block, std::int64_t stream) {
  OrderAfter(stream, block, true);
  const auto bytes = static_cast<std::int64_t>(Block(block).bytes);
  if (Chance(0.2)) return Emit(OpKind::kFill, {stream, block, 0, Value(), bytes});
  return Emit(OpKind::kMemset, {block, 0, Value() & 0xFF, bytes, stream});
}

bool Generator::AllocateHostMemory() {
  const std::uint64_t bytes = std::min<std::uint64_t>(PickSize(), 400'000);
  if (!Fits(bytes)) return false;
  static constexpr std::array kKinds{OpKind::kAllocateManaged, OpKind::kHostAllocate, OpKind::kHostRegister};
  const std::int64_t block = New('b');
  const OpKind kind = kKinds[static_cast<std::size_t>(Between(0, 2))];
  if (!Emit(kind, {block, static_cast<std::int64_t>(bytes)})) return false;
  const std::int64_t stream = PickStream();
  plans_[block] = {stream, thread_, false};
  return Chance(0.5) ? Emit(OpKind::kHostWrites, {block, Value()}) : Clear(block, stream);
}

// ---- blocks that go ----

bool Generator::Free() {
  const std::int64_t block = PickBlock();
  if (block < 0) return false;
  const Memory& memory = Block(block);
  switch (memory.kind) {
    case MemoryKind::kVirtual:
      return OrderHostAfter(block, true) && Emit(OpKind::kUnmap, {block});
    case MemoryKind::kHost:
      return OrderHostAfter(block, true) && Emit(OpKind::kFreeHost, {block});
    case MemoryKind::kRegistered:
      return OrderHostAfter(block, true) && Emit(OpKind::kHostUnregister, {block});
    case MemoryKind::kManaged:
      return OrderHostAfter(block, true) && Emit(OpKind::kFree, {block});
    default:
      return FreeAndGoOn(block);
  }
}

// The device may still be using it: a free waits for it, or must look as if it did.
bool Generator::FreeBlock(std::int64_t block, bool in_stream) {
  const Memory& memory = Block(block);
  const bool of_device = memory.kind == MemoryKind::kDevice || memory.kind == MemoryKind::kStreamOrdered;
  if (!of_device) return false;
  if (in_stream) {
    if (!EnterFor(block)) return false;
    const std::int64_t stream = PickStream(block);
    OrderAfter(stream, block, true);
    return Emit(OpKind::kFreeAsync, {block, stream});
  }
  // cuMemFree does not wait for stream-ordered memory, nor for other contexts.
  if (memory.kind == MemoryKind::kStreamOrdered) OrderHostAfter(block, true);
  if (Emit(OpKind::kFree, {block})) return true;
  return OrderHostAfter(block, true) && Emit(OpKind::kFree, {block});
}

bool Generator::FreeAndGoOn(std::int64_t block) {
  const Memory memory = Block(block);
  const bool in_stream = profile_.stream_ordered && Chance(memory.kind == MemoryKind::kStreamOrdered ? 0.85 : 0.1);
  if (!FreeBlock(block, in_stream)) return false;
  if (!in_stream && memory.kind == MemoryKind::kDevice) {
    // Programs read the result of an asynchronous copy right after a free: the free is the only wait.
    if (Chance(0.3)) ReadWhatIsKnown();
  } else if (in_stream && memory.kind == MemoryKind::kStreamOrdered) {
    const std::int64_t freed_in = program_.ops.back().args[1];
    ReuseElsewhere(memory.bytes, memory.pool, freed_in);
    return true;
  }
  // What a loop does: the same size again at once, used by another stream than the one that may still be at work. In
  // quiet programs nobody else writes to it, so that late work of its forerunner would show.
  if (Chance(0.5)) Allocate(memory.bytes, PickStream(), quiet_, -1);
  return true;
}

// The same size from the same pool in another stream, which gets ahead of the one that may still be at work.
void Generator::ReuseElsewhere(std::uint64_t bytes, std::int64_t pool, std::int64_t freed_in) {
  const std::int64_t stream = PickStream();
  if (stream == freed_in || Chance(0.3)) return;
  if (pool >= 0 && !model_.pools().at(pool).live) pool = -1;
  Allocate(bytes, stream, true, pool);
  if (Chance(0.7)) Emit(OpKind::kStreamSynchronize, {stream});
}

// Host bytes whose copies are known to be complete, and host memory that nothing writes any more.
void Generator::ReadWhatIsKnown() {
  for (const std::int64_t bytes : std::set(unread_)) {
    if (MyHostBytes(bytes) && Emit(OpKind::kRead, {bytes})) unread_.erase(bytes);
  }
  for (const std::int64_t block : MyBlocks()) {
    const Memory& memory = Block(block);
    if (memory.kind == MemoryKind::kManaged || memory.kind == MemoryKind::kHost ||
        memory.kind == MemoryKind::kRegistered) {
      Emit(OpKind::kHostReads, {block, 0, static_cast<std::int64_t>(memory.bytes)});
    }
  }
}

// ---- memory that the program maps itself ----

bool Generator::Map(std::int64_t physical) {
  std::vector<std::int64_t> places;
  for (const auto& [number, reservation] : model_.reservations()) {
    if (model_.Free(reservation, thread_)) places.push_back(number);
  }
  if (places.empty()) return false;
  const std::int64_t place = OneOf(places);
  const auto pages = static_cast<std::int64_t>(model_.reservations().at(place).bytes) / kPage;
  const int device = model_.physicals().at(physical).device;
  const std::int64_t access = Chance(0.5) ? std::int64_t{1} << device : (std::int64_t{1} << program_.devices) - 1;
  const std::int64_t block = New('b');
  const std::int64_t page = Between(0, static_cast<int>(pages) - 1);
  if (!Emit(OpKind::kMap, {block, place, page * kPage, physical, access})) return false;
  plans_[block] = {PickStream(), thread_, false};
  if (Block(block).defined) return true;  // moved with its bytes
  return EnterFor(block) && Clear(block, PickStream());
}

bool Generator::VirtualMemory() {
  std::vector<std::int64_t> unmapped, places, live;
  for (const auto& [number, physical] : model_.physicals()) {
    if (!model_.Free(physical, thread_)) continue;
    live.push_back(number);
    if (!physical.mapped) unmapped.push_back(number);
  }
  for (const auto& [number, reservation] : model_.reservations()) {
    if (model_.Free(reservation, thread_)) places.push_back(number);
  }
  const int most = program_.memory != 0 ? 8 : 3;  // pages
  const int dice = Between(0, 12);
  if (dice >= 10) {  // what is mapped moves
    std::vector<std::int64_t> mapped = MyBlocks();
    std::erase_if(mapped, [this](std::int64_t block) { return Block(block).kind != MemoryKind::kVirtual; });
    if (mapped.empty()) return false;
    const std::int64_t block = OneOf(mapped);
    if (plans_[block].watched || !OrderHostAfter(block, true) || !Emit(OpKind::kUnmap, {block})) return false;
    return !model_.physicals().at(Block(block).physical).live || Map(Block(block).physical);
  }
  if (places.empty() || dice == 0) return Emit(OpKind::kReserve, {New('r'), Between(1, 2 * most) * kPage});
  if (live.empty() || dice <= 2) {
    const std::int64_t physical = New('m');
    if (!Fits(kPage)) return false;
    if (!Emit(OpKind::kCreatePhysical, {physical, Between(1, most) * kPage, Between(0, program_.devices - 1)}))
      return false;
    return Map(physical);
  }
  if (dice <= 6) return !unmapped.empty() && Map(OneOf(unmapped));
  if (dice <= 8) return Emit(OpKind::kReleasePhysical, {OneOf(live)});
  return Emit(OpKind::kFreeAddresses, {OneOf(places)});
}

// ---- pools and contexts: one thread alone ----

bool Generator::PoolCalls() {
  const int device = model_.contexts().at(model_.current(thread_)).device;
  std::vector<std::int64_t> pools;
  for (const auto& [number, pool] : model_.pools()) {
    if (pool.live) pools.push_back(number);
  }
  const int dice = Between(0, 15);
  if (pools.empty() || dice < 3) {
    return Emit(Chance(0.4) ? OpKind::kDefaultPool : OpKind::kCreatePool, {New('p'), Between(0, program_.devices - 1)});
  }
  const std::int64_t pool = OneOf(pools);
  static constexpr std::array<std::int64_t, 4> kThresholds{0, 8 << 20, 64 << 20, INT64_MAX};
  switch (dice) {
    case 3:
    case 4:
      return Emit(OpKind::kSetPool, {pool});
    case 5:
    case 6:
      return Emit(OpKind::kTrimPool, {pool, Chance(0.5) ? 0 : 4 << 20});
    case 7:
    case 8:
    case 9:
      return Emit(OpKind::kPoolThreshold, {pool, kThresholds[static_cast<std::size_t>(Between(0, 3))]});
    case 10:
      return Emit(OpKind::kPoolReuse, {pool, Between(0, 1)});
    case 11:
    case 12:
      return Emit(OpKind::kPoolAccess, {pool, Between(0, program_.devices - 1)});
    case 13:
      return Emit(OpKind::kDestroyPool, {pool});
    default:
      return model_.pools().at(pool).device == device &&
             Emit(OpKind::kPoolFacts, {pool, static_cast<std::int64_t>(model_.LiveIn(pool))});
  }
}

bool Generator::ContextCalls() {
  std::vector<std::int64_t> live, made;
  for (const auto& [number, context] : model_.contexts()) {
    if (!context.live) continue;
    live.push_back(number);
    if (!context.primary) made.push_back(number);
  }
  const int dice = Between(0, 9);
  bool done = false;
  if (dice < 4) {
    if (made.size() >= 3) return false;
    done = Emit(OpKind::kCreateContext, {New('c'), Between(0, program_.devices - 1)});
  } else if (dice < 7) {
    done = !made.empty() && Emit(OpKind::kDestroyContext, {OneOf(made)});
  } else {
    const std::int64_t context = OneOf(live);
    done = Emit(OpKind::kResetPrimary, {context});
  }
  if (model_.current(thread_) < 0) Enter(live.front());
  if (done && MyStreams().empty()) {
    const std::int64_t stream = New('s');
    stream_owner_[stream] = Between(0, program_.threads - 1);
    Emit(OpKind::kCreateStream, {stream, Between(0, 1)});
  }
  return done;
}

}  // namespace cuheap::campaigns
