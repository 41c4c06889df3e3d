// The rules of memory: who may use it when, and when it may go.
#include <algorithm>

#include "tests/campaigns/random/model.h"

namespace cuheap::campaigns {
namespace {

constexpr std::uint64_t kPage = 2u << 20;  // cuMemGetAllocationGranularity of every device there is

std::uint64_t Unsigned(std::int64_t value) { return static_cast<std::uint64_t>(value); }

}  // namespace

// Small requests share pages with others of their size, so twice their bytes.
std::uint64_t Model::Charge(std::uint64_t bytes) {
  return bytes >= kPage / 2 ? (bytes + kPage - 1) / kPage * kPage : 2 * ((bytes + 511) / 512 * 512);
}

bool Model::FitsIn(int device, std::uint64_t bytes) const {
  return header_.memory == 0 || charged(device) + Charge(bytes) <= limit();
}

std::uint64_t Model::LiveIn(std::int64_t pool) const {
  std::uint64_t bytes = 0;
  for (const auto& [number, memory] : memories_) {
    if (memory.live && memory.kind == MemoryKind::kStreamOrdered && memory.pool == pool) bytes += memory.bytes;
  }
  return bytes;
}

bool Model::Accessible(const Memory& memory, std::int64_t context) const {
  const Context& user = contexts_.at(context);
  switch (memory.kind) {
    case MemoryKind::kDevice:
      return memory.context == context || user.peers.contains(memory.context);
    case MemoryKind::kStreamOrdered:
      if (memory.device == user.device) return true;
      return memory.pool >= 0 && (pools_.at(memory.pool).access >> user.device & 1) != 0;
    case MemoryKind::kVirtual:
      return (memory.access >> user.device & 1) != 0;
    default:
      return true;
  }
}

// ---- blocks that come ----

std::string Model::NewBlock(const Op& op, Memory memory) {
  const std::int64_t number = op.args[0];
  if (memories_.contains(number)) return "the block's number is taken";
  if (memory.bytes == 0 || memory.bytes % 4 != 0) return "an odd size";
  const bool on_device = memory.kind == MemoryKind::kDevice || memory.kind == MemoryKind::kStreamOrdered;
  if (on_device && !FitsIn(memory.device, memory.bytes)) return "more than the program may use of the device";
  memory.live = true;
  Touch(memory, op.thread);
  if (on_device) {
    charged_[static_cast<std::size_t>(memory.device)] += Charge(memory.bytes);
    held_[static_cast<std::size_t>(memory.device)] += memory.bytes;
  }
  memories_[number] = std::move(memory);
  return {};
}

std::string Model::ApplyMemory(const Op& op) {
  Memory memory;
  memory.context = View(op.thread).current;
  memory.device = contexts_.at(memory.context).device;
  memory.bytes = Unsigned(op.args[1]);
  switch (op.kind) {
    case OpKind::kAllocate:
      return NewBlock(op, memory);
    case OpKind::kAllocatePitch:
      memory.bytes = Unsigned(op.args[1]) * Unsigned(op.args[2]);
      return NewBlock(op, memory);
    case OpKind::kAllocateManaged:
      memory.kind = MemoryKind::kManaged;
      return NewBlock(op, memory);
    case OpKind::kHostAllocate:
    case OpKind::kHostRegister:
      memory.kind = op.kind == OpKind::kHostAllocate ? MemoryKind::kHost : MemoryKind::kRegistered;
      return NewBlock(op, memory);
    default:
      break;
  }
  const bool named = op.kind == OpKind::kAllocateFromPool;
  const std::int64_t stream = op.args[named ? 3 : 2];
  if (std::string reason = CheckStream(op.thread, stream, true); !reason.empty()) return reason;
  memory.kind = MemoryKind::kStreamOrdered;
  memory.pool = named ? op.args[2] : current_pool_[static_cast<std::size_t>(memory.device)];
  memory.context = -1;
  if (named) {
    const auto pool = pools_.find(memory.pool);
    if (pool == pools_.end() || !pool->second.live) return "no such pool";
    if (pool->second.device != memory.device) return "a pool of another device";
  }
  if (std::string reason = NewBlock(op, memory); !reason.empty()) return reason;
  Access(memories_.at(op.args[0]), EnqueueQuietly(op.thread, stream), true);
  if (stream >= 0) Touch(streams_.at(stream), op.thread);
  return {};
}

// ---- blocks that go ----

void Model::Gone(Memory& memory) {
  memory.live = false;
  if (memory.kind != MemoryKind::kDevice && memory.kind != MemoryKind::kStreamOrdered) return;
  charged_[static_cast<std::size_t>(memory.device)] -= Charge(memory.bytes);
  held_[static_cast<std::size_t>(memory.device)] -= memory.bytes;
}

std::string Model::ApplyFree(const Op& op) {
  const auto found = memories_.find(op.args[0]);
  if (found == memories_.end() || !Free(found->second, op.thread)) return "no such block";
  Memory& memory = found->second;
  const bool idle = UnorderedForHost(op.thread, memory, true).empty();
  // "Calling cuMemFree on an exported memory region before calling cuIpcCloseMemHandle in the importing context will
  // result in undefined behavior": cuIpcOpenMemHandle.
  if (memory.elsewhere >= 0) return "another process has it open";
  switch (op.kind) {
    case OpKind::kFreeHost:
    case OpKind::kHostUnregister:
      if (memory.kind != (op.kind == OpKind::kFreeHost ? MemoryKind::kHost : MemoryKind::kRegistered))
        return "another kind";
      if (!idle) return "in use";
      break;
    case OpKind::kFree:
      if (memory.kind == MemoryKind::kDevice) {
        // The work of its context may go on in it: the free waits, or looks as if it did.
        for (const auto* moments : {&memory.writers, &memory.readers}) {
          for (const Moment moment : *moments) {
            if (agent_context_[moment.agent] != memory.context && !HostKnows(op.thread, moment))
              return "in use elsewhere";
          }
        }
        FreeWaitsForContext(op.thread, memory.context);
      } else if (memory.kind == MemoryKind::kManaged || memory.kind == MemoryKind::kStreamOrdered) {
        // "Callers must ensure that all accesses to the pointer have completed": cuMemFree of stream-ordered memory.
        if (!idle) return "in use";
      } else {
        return "another kind";
      }
      break;
    default: {  // kFreeAsync
      const std::int64_t stream = op.args[1];
      if (std::string reason = CheckStream(op.thread, stream, true); !reason.empty()) return reason;
      if (memory.kind != MemoryKind::kStreamOrdered && memory.kind != MemoryKind::kDevice) return "another kind";
      if (memory.device != contexts_.at(View(op.thread).current).device) return "a stream of another device";
      if (memory.kind == MemoryKind::kDevice && memory.context != View(op.thread).current) return "another context's";
      if (!Unordered(op.thread, stream, memory, true).empty()) return "in use in other streams";
      EnqueueQuietly(op.thread, stream);
      if (stream >= 0) Touch(streams_.at(stream), op.thread);
      const auto device = static_cast<std::size_t>(memory.device);
      charged_[device] += Charge(memory.bytes);
      freed_in_stream_[device] += Charge(memory.bytes);
    }
  }
  Gone(memory);
  return {};
}

// ---- pools ----

std::string Model::ApplyPool(const Op& op) {
  const std::int64_t number = op.args[0];
  const auto found = pools_.find(number);
  if (!Alone(op.thread)) return "other threads are at work";
  if (op.kind == OpKind::kDefaultPool || op.kind == OpKind::kCreatePool) {
    const auto device = static_cast<int>(op.args[1]);
    if (found != pools_.end() || number < 0) return "the pool's number is taken";
    if (device < 0 || device >= header_.devices) return "no such device";
    Pool pool;
    pool.live = true;
    pool.device = device;
    pool.by_default = op.kind == OpKind::kDefaultPool;
    for (const auto& [other, known] : pools_) {
      if (pool.by_default && known.by_default && known.device == device) return "the default pool has a number";
    }
    pools_[number] = pool;
    alone_ = op.thread;
    if (!pool.by_default) return {};
    if (current_pool_[static_cast<std::size_t>(device)] == -1) current_pool_[static_cast<std::size_t>(device)] = number;
    for (auto& [block, memory] : memories_) {
      if (memory.kind == MemoryKind::kStreamOrdered && memory.device == device && memory.pool == -1)
        memory.pool = number;
    }
    return {};
  }
  if (found == pools_.end() || !found->second.live) return "no such pool";
  Pool& pool = found->second;
  const auto device = static_cast<std::size_t>(pool.device);
  switch (op.kind) {
    case OpKind::kSetPool:
      current_pool_[device] = number;
      break;
    case OpKind::kPoolAccess:
      if (op.args[1] < 0 || op.args[1] >= header_.devices || op.args[1] == pool.device) return "no such peer";
      pool.access |= std::uint64_t{1} << op.args[1];
      break;
    case OpKind::kPoolFacts:
      if (LiveIn(number) != Unsigned(op.args[1])) return "other bytes are live";
      if (contexts_.at(View(op.thread).current).device != pool.device) return "a pool of another device";
      HostWaitsForContext(op.thread, View(op.thread).current);
      break;
    case OpKind::kDestroyPool:
      // The device's default pool takes its place, if it was the current one. Its blocks live on until they are freed.
      if (pool.by_default) return "the default pool";
      if (current_pool_[device] == number) return "the current pool";
      pool.live = false;
      break;
    default:
      break;
  }
  alone_ = op.thread;
  return {};
}

// ---- virtual memory ----

std::string Model::ApplyVirtual(const Op& op) {
  const std::int64_t number = op.args[0];
  if (op.kind == OpKind::kMap || op.kind == OpKind::kUnmap) return ApplyMapping(op);
  if (op.kind == OpKind::kReserve || op.kind == OpKind::kCreatePhysical) {
    const std::uint64_t bytes = Unsigned(op.args[1]);
    if (bytes == 0 || bytes % kPage != 0) return "no multiple of the granularity";
    if (op.kind == OpKind::kReserve) {
      if (reservations_.contains(number)) return "the number is taken";
      Reservation reservation;
      reservation.live = true;
      reservation.bytes = bytes;
      Touch(reservation, op.thread);
      reservations_[number] = reservation;
      return {};
    }
    if (physicals_.contains(number)) return "the number is taken";
    if (op.args[2] < 0 || op.args[2] >= header_.devices) return "no such device";
    Physical physical;
    physical.live = true;
    physical.bytes = bytes;
    physical.device = static_cast<int>(op.args[2]);
    if (!FitsIn(physical.device, bytes)) return "more than the program may use of the device";
    charged_[static_cast<std::size_t>(physical.device)] += Charge(bytes);
    held_[static_cast<std::size_t>(physical.device)] += bytes;
    Touch(physical, op.thread);
    physicals_[number] = physical;
    return {};
  }
  if (op.kind == OpKind::kReleasePhysical) {
    const auto found = physicals_.find(number);
    if (found == physicals_.end() || !Free(found->second, op.thread)) return "no such memory";
    found->second.live = false;
    if (found->second.mapped) return {};
    charged_[static_cast<std::size_t>(found->second.device)] -= Charge(found->second.bytes);
    held_[static_cast<std::size_t>(found->second.device)] -= found->second.bytes;
    return {};
  }
  const auto found = reservations_.find(number);
  if (found == reservations_.end() || !Free(found->second, op.thread)) return "no such addresses";
  for (const auto& [block, memory] : memories_) {
    if (memory.live && memory.reservation == number) return "something is mapped";
  }
  found->second.live = false;
  return {};
}

std::string Model::ApplyMapping(const Op& op) {
  if (op.kind == OpKind::kUnmap) {
    const auto found = memories_.find(op.args[0]);
    if (found == memories_.end() || !Free(found->second, op.thread) || found->second.kind != MemoryKind::kVirtual)
      return "no such mapping";
    if (!UnorderedForHost(op.thread, found->second, true).empty()) return "in use";
    Reservation& place = reservations_.at(found->second.reservation);
    if (!Free(place, op.thread)) return "another thread's addresses";
    Touch(place, op.thread);
    found->second.live = false;
    Physical& physical = physicals_.at(found->second.physical);
    physical.mapped = false;
    physical.defined = found->second.defined;
    Touch(physical, op.thread);
    if (physical.live) return {};
    charged_[static_cast<std::size_t>(physical.device)] -= Charge(physical.bytes);
    held_[static_cast<std::size_t>(physical.device)] -= physical.bytes;
    return {};
  }
  const auto reservation = reservations_.find(op.args[1]);
  const auto physical = physicals_.find(op.args[3]);
  if (reservation == reservations_.end() || !Free(reservation->second, op.thread)) return "no such addresses";
  if (physical == physicals_.end() || !Free(physical->second, op.thread) || physical->second.mapped)
    return "no such memory, or mapped elsewhere";
  Memory memory;
  memory.kind = MemoryKind::kVirtual;
  memory.bytes = physical->second.bytes;
  memory.offset = Unsigned(op.args[2]);
  memory.device = physical->second.device;
  memory.reservation = op.args[1];
  memory.physical = op.args[3];
  memory.access = Unsigned(op.args[4]);
  memory.defined = physical->second.defined;
  if (memory.access == 0 || memory.access >> header_.devices != 0) return "no such devices";
  if (memory.offset % kPage != 0 || memory.offset + memory.bytes > reservation->second.bytes) return "outside";
  for (const auto& [block, other] : memories_) {
    if (!other.live || other.reservation != op.args[1]) continue;
    if (memory.offset < other.offset + other.bytes && other.offset < memory.offset + memory.bytes)
      return "mapped already";
  }
  if (std::string reason = NewBlock(op, memory); !reason.empty()) return reason;
  physical->second.mapped = true;
  Touch(physical->second, op.thread);
  Touch(reservation->second, op.thread);
  return {};
}

}  // namespace cuheap::campaigns
