// How to step from one call frame to its caller, as the compiler's call frame information (.eh_frame) tells it for one
// code address, boiled down to one word that fits a cache.
//
// Only what leads from frame to frame is kept: the canonical frame address (CFA, the stack pointer before the call),
// the saved frame pointer, and the return address right below the CFA. That is complete for compiled code, as long as
// the CFA hangs on the stack pointer or the frame pointer; hand-written code where it hangs on another register (the
// lazy binding trampoline of the loader) ends the walk. Processor: everything here is x86-64's (DWARF numbers and
// layouts); aarch64 needs another version of this file, registers.h and the return-address rule.
//
// Source: System V ABI AMD64 supplement, 3.7; DWARF 4, 6.4; Linux Standard Base, exception frames (.eh_frame_hdr).
#ifndef CUHEAP_INTERPOSE_STACKS_FRAME_RULE_H_
#define CUHEAP_INTERPOSE_STACKS_FRAME_RULE_H_

#include <cstdint>

namespace cuheap::stacks {

enum class CfaKind : std::uint8_t {
  kNone = 0,               // no rule: no call frame information for this address, or none that we can use
  kOutermost = 1,          // the first frame of a thread: it has no caller
  kStackPointer = 2,       // CFA = rsp + cfa_offset
  kFramePointer = 3,       // CFA = rbp + cfa_offset
  kFramePointerDeref = 4,  // CFA = *(rbp + cfa_offset): functions that align their stack
  kSignal = 5,             // the kernel's signal frame: the interrupted registers lie above rsp
};

enum class SavedKind : std::uint8_t {
  kSame = 0,     // the caller's rbp is still in rbp
  kAtCfa = 1,    // saved at CFA + saved_offset
  kAtFrame = 2,  // saved at rbp + saved_offset
  kLost = 3,     // not to be had: the walk goes on while it isn't needed
};

struct FrameRule {
  CfaKind cfa = CfaKind::kNone;
  SavedKind saved = SavedKind::kSame;
  std::int32_t cfa_offset = 0;    // bytes, 28 bits
  std::int32_t saved_offset = 0;  // bytes, 28 bits

  // One word, never 0: from the top one bit that is set, 5 bits cfa, 2 bits saved, the two offsets.
  std::uint64_t Pack() const {
    return (std::uint64_t{1} << 63) | (static_cast<std::uint64_t>(cfa) << 58) |
           (static_cast<std::uint64_t>(saved) << 56) |
           ((static_cast<std::uint64_t>(cfa_offset) & kOffsetMask) << kOffsetBits) |
           (static_cast<std::uint64_t>(saved_offset) & kOffsetMask);
  }
  static FrameRule Unpack(std::uint64_t word) {
    return FrameRule{static_cast<CfaKind>((word >> 58) & 0x1F), static_cast<SavedKind>((word >> 56) & 3),
                     SignExtend(word >> kOffsetBits), SignExtend(word)};
  }

  static constexpr unsigned kOffsetBits = 28;
  static constexpr std::uint64_t kOffsetMask = (std::uint64_t{1} << kOffsetBits) - 1;

 private:
  static std::int32_t SignExtend(std::uint64_t bits) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(bits) << 4) >> 4;
  }
};

// The rule for the code address `pc`, in the object whose .eh_frame_hdr is at `eh_frame_hdr` (its own memory). For a
// return address pass the address minus one: it may be the first address of another function.
// Reads the object's memory as the C++ runtime does when it throws; no lock, no allocation, no system call.
FrameRule FindFrameRule(std::uint64_t pc, const void* eh_frame_hdr);

}  // namespace cuheap::stacks

#endif  // CUHEAP_INTERPOSE_STACKS_FRAME_RULE_H_
