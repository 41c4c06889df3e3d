/* The exported symbols, x86-64. What depends on the processor in the roads lies here and nowhere else.
 *
 * A hooked name is one jump to its wrapper (entry_points.cc), which has the signature that cuda.h declares: C++ can
 * define a function from its type only under a mangled name.
 *
 * dlsym and dlvsym ask C++ what to do: either the answer is known, or the call goes on to the real function by a tail
 * jump, so that the real one sees the true caller's return address. RTLD_NEXT and RTLD_DEFAULT depend on it: with a
 * call instead, LLVM's OpenMP asks for its own weak ompt_start_tool again and again (it would be found relative to us).
 */
        .text

#define HOOK(name, version, effect)       \
        .globl name;                      \
        .type name, @function;            \
        .hidden cuheap_entry_##name;      \
        .globl cuheap_entry_##name;       \
        .hidden cuheap_wrapper_##name;    \
        .balign 16;                       \
        name: cuheap_entry_##name:        \
        .cfi_startproc;                   \
        endbr64;                          \
        jmp *cuheap_wrapper_##name(%rip); \
        .cfi_endproc;                     \
        .size name, . - name;

#include "interpose/hooked_functions.inc"
#undef HOOK

        .hidden cuheap_dlsym_road
        .hidden cuheap_dlvsym_road

/* void* dlsym(void* handle, const char* name) */
        .globl dlsym
        .type dlsym, @function
        .hidden cuheap_entry_dlsym
        .globl cuheap_entry_dlsym
        .balign 16
dlsym: cuheap_entry_dlsym:
        .cfi_startproc
        endbr64
        pushq %rdi
        .cfi_adjust_cfa_offset 8
        pushq %rsi
        .cfi_adjust_cfa_offset 8
        subq $8, %rsp
        .cfi_adjust_cfa_offset 8
        movq 24(%rsp), %rdx             /* the caller */
        call cuheap_dlsym_road          /* rax: answer, rdx: where to go on, or 0 */
        addq $8, %rsp
        .cfi_adjust_cfa_offset -8
        popq %rsi
        .cfi_adjust_cfa_offset -8
        popq %rdi
        .cfi_adjust_cfa_offset -8
        testq %rdx, %rdx
        jz 1f
        jmp *%rdx
1:      ret
        .cfi_endproc
        .size dlsym, . - dlsym

/* void* dlvsym(void* handle, const char* name, const char* version) */
        .globl dlvsym
        .type dlvsym, @function
        .hidden cuheap_entry_dlvsym
        .globl cuheap_entry_dlvsym
        .balign 16
dlvsym: cuheap_entry_dlvsym:
        .cfi_startproc
        endbr64
        pushq %rdi
        .cfi_adjust_cfa_offset 8
        pushq %rsi
        .cfi_adjust_cfa_offset 8
        pushq %rdx
        .cfi_adjust_cfa_offset 8
        movq 24(%rsp), %rcx             /* the caller */
        call cuheap_dlvsym_road
        movq %rdx, %rcx
        popq %rdx
        .cfi_adjust_cfa_offset -8
        popq %rsi
        .cfi_adjust_cfa_offset -8
        popq %rdi
        .cfi_adjust_cfa_offset -8
        testq %rcx, %rcx
        jz 1f
        jmp *%rcx
1:      ret
        .cfi_endproc
        .size dlvsym, . - dlvsym

        .section .note.GNU-stack, "", @progbits
