/* The short ways into and out of an operation, while recording: nobody else operated on its memory
 * since this thread did, or now, so nothing is logged. Everything else is left to entry.S, as if
 * nothing had been done.
 *
 * Context: runs on the program's stack pointer, and writes only to the thread's context, its slot
 * and the clock. %rcx says where the stub goes on; the program's is in the context. No register or
 * flag may change. The master handler puts off signals that arrive here. */
#include "contract/offsets.h"
#include "base/registers.h"

#define QUICK(field) %gs:CONTEXT_QUICK + field
#define SPREAD 0x9e3779b97f4a7c15 /* as in order/operation.c */
#define LINE_SHIFT 6
#define CLOCK_BITS 10
#define CLOCK_SHIFT 6 /* of the size of a clock */

	.section .text.entry, "ax"

	.macro KEEP_FLAGS
	lahf
	seto %al
	mov %eax, %gs:EFLAGS
	.endm
	.macro BRING_FLAGS_BACK
	mov %gs:EFLAGS, %eax
	add $0x7f, %al /* overflow flag */
	sahf
	mov %gs:RAX, %rax
	mov %gs:RDX, %rdx
	.endm

	.macro QUICK_BEGIN name, otherwise, compares
8:	BRING_FLAGS_BACK
9:	mov %gs:RIP, %rcx
	jmp \otherwise
	.globl \name
\name:
	mov %rcx, %gs:RIP
	mov QUICK(QUICK_IS_ON), %ecx
	jrcxz 9b
	mov %rax, %gs:RAX
	mov %rdx, %gs:RDX
	KEEP_FLAGS
	mov %gs:CONTEXT_OPERAND, %rcx
	test %rcx, %rcx
	jle 8b /* none, or relative to the thread's own storage */
	cmpq $0, %gs:CONTEXT_FAILED
	jne 8b
	.if \compares
	cmpq $0, %gs:CONTEXT_COMPARING
	jne 8b
	.endif
	shr $LINE_SHIFT, %rcx
	add QUICK(QUICK_SEED), %rcx
	mov $SPREAD, %rax
	imul %rax, %rcx
	shr $64 - CLOCK_BITS, %rcx
	shl $CLOCK_SHIFT, %rcx
	add QUICK(QUICK_CLOCKS), %rcx
	cmpl $0, CLOCK_WAITERS(%rcx)
	jne 8b
	xor %eax, %eax
	mov QUICK(QUICK_OWN), %edx
	lock cmpxchg %edx, CLOCK_HOLDER(%rcx)
	jne 8b
	mov QUICK(QUICK_OWN), %rdx
	cmp %rdx, CLOCK_LAST(%rcx) /* and the epoch behind it */
	jne 7f
	mov %gs:CONTEXT_PROCESS, %rax
	mov QUICK(QUICK_DOMAIN), %rdx
	cmp %rdx, (%rax)
	jne 7f
	mov %rcx, %gs:CONTEXT_CLOCK
	movq $0, %gs:CONTEXT_OPERAND
	movl $2, %gs:CONTEXT_OPERATING
	BRING_FLAGS_BACK
	.if \compares
	mov %gs:RIP, %rcx
	mov %rcx, %gs:CONTEXT_COMPARING
	.endif
	mov %gs:CONTEXT_SCRATCH, %rcx
	jmp *%gs:RIP
7:	movl $0, CLOCK_HOLDER(%rcx)
	jmp 8b
	.endm
	QUICK_BEGIN quick_begin, section_begin, 0
	QUICK_BEGIN quick_compare_begin, compare_begin, 1

9:	mov %gs:RIP, %rcx
	jmp section_end
	.globl quick_end
quick_end:
	mov %rcx, %gs:RIP
	mov QUICK(QUICK_IS_ON), %ecx
	jrcxz 9b
	mov %gs:CONTEXT_OPERATING, %ecx
	jrcxz 9b
operation_over:
	mov %rax, %gs:RAX
	mov %rdx, %gs:RDX
	mov %gs:CONTEXT_CLOCK, %rcx
	mov QUICK(QUICK_PUBLISHED), %rdx
	mov %gs:CONTEXT_OPERATIONS, %rax
	lea 1(%rax), %rax
	mov %rax, %gs:CONTEXT_OPERATIONS
	mov %rax, (%rdx)
	mov %rax, CLOCK_OPERATIONS(%rcx)
	mov QUICK(QUICK_OWN), %rax
	mov %rax, CLOCK_LAST(%rcx)
	movl $0, %gs:CONTEXT_OPERATING
	movl $0, CLOCK_HOLDER(%rcx)
	mov %gs:RAX, %rax
	mov %gs:RDX, %rdx
	mov %gs:CONTEXT_SCRATCH, %rcx
	jmp *%gs:RIP

/* One that failed, or that comes behind another thread's, is no short way. */
	.globl quick_compare_end
quick_compare_end:
	jnz 8f
	mov %rcx, %gs:RIP
	mov %gs:CONTEXT_OPERATING, %ecx
	lea -2(%rcx), %ecx
	jrcxz 7f
	mov %gs:RIP, %rcx
8:	jmp compare_end
7:	movq $0, %gs:CONTEXT_COMPARING
	jmp operation_over

	.section .note.GNU-stack, "", @progbits
