// The registers that a walk needs, and where the kernel puts them in a signal frame. x86-64.
#ifndef CUHEAP_INTERPOSE_STACKS_REGISTERS_H_
#define CUHEAP_INTERPOSE_STACKS_REGISTERS_H_

#include <ucontext.h>

#include <cstddef>
#include <cstdint>

#ifndef __x86_64__
#error "Stacks are written for x86-64: port registers.h and frame_rule.cc."
#endif

namespace cuheap::stacks {

struct Registers {
  std::uint64_t pc = 0;
  std::uint64_t stack_pointer = 0;
  std::uint64_t frame_pointer = 0;
};

// The registers of the function it is inlined into, as of this very point.
[[gnu::always_inline]] inline Registers CurrentRegisters() {
  Registers registers;
  asm volatile("leaq 0(%%rip), %0\n\tmovq %%rsp, %1\n\tmovq %%rbp, %2"
               : "=r"(registers.pc), "=r"(registers.stack_pointer), "=r"(registers.frame_pointer));
  return registers;
}

// Offsets of the interrupted registers from the stack pointer at the kernel's return trampoline, which points at the
// ucontext_t. Source: Linux, arch/x86/include/asm/sigframe.h (struct rt_sigframe).
inline constexpr std::uint64_t kSignalPc = offsetof(ucontext_t, uc_mcontext.gregs) + 8 * REG_RIP;
inline constexpr std::uint64_t kSignalStackPointer = offsetof(ucontext_t, uc_mcontext.gregs) + 8 * REG_RSP;
inline constexpr std::uint64_t kSignalFramePointer = offsetof(ucontext_t, uc_mcontext.gregs) + 8 * REG_RBP;

}  // namespace cuheap::stacks

#endif  // CUHEAP_INTERPOSE_STACKS_REGISTERS_H_
