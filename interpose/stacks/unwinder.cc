#include "interpose/stacks/unwinder.h"

#include <atomic>

#include "interpose/recorder/own_memory.h"
#include "interpose/stacks/frame_rule.h"
#include "interpose/stacks/loaded_objects.h"
#include "interpose/stacks/readable_page.h"

// Note [Torn entries]
//
// An entry of the cache is two words, written one after the other by any thread, without a lock. Two threads may write
// two addresses into the same entry at once and leave the key of one with the rule of the other. So the first word is
// not the key but key XOR rule: a reader computes word0 ^ word1 and gets the key only if both words are from one
// writer.
//
// Note [Reading stacks]
//
// A rule that is wrong for an address (hand-written code with false call frame information, code that was replaced
// between two flushes of the cache) makes us read where no stack is. So each thread remembers the range of its stack
// that was seen to be readable, and pages outside it are asked for first (readable_page.h).
// On a thread's own stack that is asked once for each page.

namespace cuheap::stacks {
namespace {

constexpr unsigned kEntryBits = 16;
constexpr std::uint64_t kEntries = std::uint64_t{1} << kEntryBits;
constexpr unsigned kAddressBits = 48;

struct Entry {
  std::atomic<std::uint64_t> mixed;
  std::atomic<std::uint64_t> rule;
};

constinit std::atomic<Entry*> g_cache = nullptr;
constinit std::atomic<std::uint64_t> g_generation = 1;

struct ReadableRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};
[[gnu::tls_model("initial-exec")]] constinit thread_local ReadableRange t_readable;

Entry* Cache() {
  Entry* cache = g_cache.load(std::memory_order_acquire);
  if (cache != nullptr) [[likely]] {
    return cache;
  }
  void* memory = recorder::MapMemory(kEntries * sizeof(Entry));  // zero: no key matches, since generations are from 1
  if (memory == nullptr) return nullptr;
  Entry* fresh = static_cast<Entry*>(memory);
  if (g_cache.compare_exchange_strong(cache, fresh, std::memory_order_acq_rel)) return fresh;
  recorder::UnmapMemory(memory, kEntries * sizeof(Entry));
  return cache;
}

std::uint64_t Slot(std::uint64_t address) { return (address * 0x9E3779B97F4A7C15) >> (64 - kEntryBits); }

[[gnu::noinline]] FrameRule FindAndRemember(Entry& entry, std::uint64_t address, std::uint64_t key) {
  LoadedObject object;
  FrameRule rule;
  if (FindLoadedObject(address, object)) rule = FindFrameRule(address, object.eh_frame_hdr);
  const std::uint64_t word = rule.Pack();
  entry.rule.store(word, std::memory_order_relaxed);
  entry.mixed.store(key ^ word, std::memory_order_relaxed);
  return rule;
}

bool PagesAreReadable(std::uint64_t begin, std::uint64_t end) {
  for (std::uint64_t page = begin; page < end; page += kPage) {
    if (!PageIsReadable(page)) return false;
  }
  return true;
}

// A stack may have frames of many pages that nobody reads in between: these are asked for too, so that the range stays
// one and the next walk asks nothing.
[[gnu::noinline]] bool ExtendReadable(std::uint64_t address) {
  constexpr std::uint64_t kLargestGap = 256 * kPage;
  const std::uint64_t page = address & ~(kPage - 1);
  if (!PageIsReadable(page)) return false;
  if (page >= t_readable.end && page - t_readable.end <= kLargestGap && PagesAreReadable(t_readable.end, page)) {
    t_readable.end = page + kPage;
  } else if (page < t_readable.begin && t_readable.begin - page <= kLargestGap &&
             PagesAreReadable(page + kPage, t_readable.begin)) {
    t_readable.begin = page;
  } else {
    t_readable = ReadableRange{page, page + kPage};
  }
  return true;
}

// Loads a word of the stack. Not instrumented: it reads what the sanitizer guards between variables.
[[gnu::no_sanitize_address, gnu::no_sanitize_thread]] inline bool Load(std::uint64_t address, std::uint64_t& value) {
  if (address % 8 != 0) [[unlikely]] {
    return false;
  }
  if (address - t_readable.begin >= t_readable.end - t_readable.begin) [[unlikely]] {
    if (!ExtendReadable(address)) return false;
  }
  value = *reinterpret_cast<const std::uint64_t*>(address);
  return true;
}

enum class Step { kDone, kOutermost, kNoRule };

// After a signal frame the next address is where the program was interrupted, not a return address.
Step StepOverSignal(Registers& registers, bool& exact) {
  const std::uint64_t at = registers.stack_pointer;
  if (!Load(at + kSignalPc, registers.pc) || !Load(at + kSignalFramePointer, registers.frame_pointer) ||
      !Load(at + kSignalStackPointer, registers.stack_pointer)) {
    return Step::kNoRule;
  }
  exact = true;
  return Step::kDone;
}

Step StepOut(const FrameRule& rule, Registers& registers, bool& exact) {
  std::uint64_t cfa;
  switch (rule.cfa) {
    case CfaKind::kStackPointer:
      cfa = registers.stack_pointer + static_cast<std::uint64_t>(static_cast<std::int64_t>(rule.cfa_offset));
      break;
    case CfaKind::kFramePointer:
      cfa = registers.frame_pointer + static_cast<std::uint64_t>(static_cast<std::int64_t>(rule.cfa_offset));
      break;
    case CfaKind::kFramePointerDeref:
      if (!Load(registers.frame_pointer + static_cast<std::uint64_t>(static_cast<std::int64_t>(rule.cfa_offset)),
                cfa)) {
        return Step::kNoRule;
      }
      break;
    case CfaKind::kSignal:
      return StepOverSignal(registers, exact);
    case CfaKind::kOutermost:
      return Step::kOutermost;
    default:
      return Step::kNoRule;
  }
  // The stack only shrinks outwards: anything else is not a stack, and might never end.
  if (cfa <= registers.stack_pointer) return Step::kNoRule;
  if (!Load(cfa - 8, registers.pc)) return Step::kNoRule;
  const auto saved = static_cast<std::uint64_t>(static_cast<std::int64_t>(rule.saved_offset));
  if (rule.saved == SavedKind::kAtCfa) {
    if (!Load(cfa + saved, registers.frame_pointer)) return Step::kNoRule;
  } else if (rule.saved == SavedKind::kAtFrame) {
    if (!Load(registers.frame_pointer + saved, registers.frame_pointer)) return Step::kNoRule;
  } else if (rule.saved == SavedKind::kLost) {
    registers.frame_pointer = 0;  // a rule that needs it finds address 0 unreadable
  }
  registers.stack_pointer = cfa;
  exact = false;
  return Step::kDone;
}

}  // namespace

WalkResult WalkStack(const Registers& start, std::uint64_t skip_begin, std::uint64_t skip_end, std::uint64_t* addresses,
                     unsigned max_addresses, std::uint64_t* stack_pointers) {
  WalkResult result;
  Entry* cache = Cache();
  if (cache == nullptr) {
    result.failed = true;
    return result;
  }
  const std::uint64_t generation = g_generation.load(std::memory_order_acquire) << kAddressBits;
  Registers registers = start;
  bool exact = true;
  for (;;) {
    const std::uint64_t address = exact ? registers.pc : registers.pc - 1;
    const std::uint64_t key = address ^ generation;
    Entry& entry = cache[Slot(address)];
    const std::uint64_t word = entry.rule.load(std::memory_order_relaxed);
    FrameRule rule;
    if ((entry.mixed.load(std::memory_order_relaxed) ^ word) == key && word != 0) [[likely]] {
      rule = FrameRule::Unpack(word);
    } else {
      rule = FindAndRemember(entry, address, key);
    }
    const Step step = StepOut(rule, registers, exact);
    if (step != Step::kDone) {
      result.failed = step == Step::kNoRule;
      return result;
    }
    if (registers.pc == 0) return result;  // how hand-made outermost frames end
    if (result.depth == 0 && registers.pc - skip_begin < skip_end - skip_begin) continue;
    if (result.depth == max_addresses) {
      result.truncated = true;
      return result;
    }
    if (stack_pointers != nullptr) stack_pointers[result.depth] = registers.stack_pointer;
    addresses[result.depth++] = registers.pc;
  }
}

void ForgetFrameRules() { g_generation.fetch_add(1, std::memory_order_acq_rel); }

}  // namespace cuheap::stacks
