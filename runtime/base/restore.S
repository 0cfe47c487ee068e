/* Returns to the program, with the registers from the thread's struct context.
 *
 * Context: nothing of the runtime is needed any more; general registers only. */
#include "base/registers.h"

	.text
/* LEAVE_FAST from the middle of compiled code that does not return: see runtime_syscall. */
	.globl leave_fast, leave_kept
leave_fast:
	mov %gs:RBX, %rbx
	mov %gs:RBP, %rbp
	mov %gs:R12, %r12
	mov %gs:R13, %r13
	mov %gs:R14, %r14
	mov %gs:R15, %r15
leave_kept:
	/* LEAVE_FAST: the compiled code kept the callee-saved registers. */
	mov %gs:EFLAGS, %r11
	test $FLAG_ODD, %r11d
	jnz restore_full /* only popf restores them */
	mov %r11d, %eax
	shr $11, %eax
	and $1, %eax
	add $0x7f, %al /* overflow flag */
	mov %r11d, %eax
	mov %al, %ah
	sahf
	mov %gs:R8, %r8
	mov %gs:R9, %r9
	mov %gs:R10, %r10
	mov %gs:RDI, %rdi
	mov %gs:RSI, %rsi
	mov %gs:RDX, %rdx
	mov %gs:RAX, %rax
	mov %gs:RIP, %rcx
	mov %gs:RSP, %rsp
	jmp *%rcx

	.macro RESTORE_GENERAL
	mov %gs:R8, %r8
	mov %gs:R9, %r9
	mov %gs:R10, %r10
	mov %gs:R11, %r11
	mov %gs:R12, %r12
	mov %gs:R13, %r13
	mov %gs:R14, %r14
	mov %gs:R15, %r15
	mov %gs:RDI, %rdi
	mov %gs:RSI, %rsi
	mov %gs:RBP, %rbp
	mov %gs:RBX, %rbx
	mov %gs:RDX, %rdx
	mov %gs:RAX, %rax
	mov %gs:RCX, %rcx
	.endm

/* Sets every register exactly as struct context says. */
	.globl restore_full, restore_registers, restore_jump, restore_stepping, restore_stepping_end
restore_full:
	mov %gs:CONTEXT_STACK_TOP, %rsp
	mov %gs:CONTEXT_PAUSE_AT, %rax
	dec %rax
	cmp %rax, %gs:CONTEXT_EVENT_COUNT
	jae RUNTIME_TEXT + ENTRY_PAUSE
restore_registers:
	testl $FLAG_TRAP, %gs:EFLAGS
	jnz restore_stepping
	pushq %gs:EFLAGS
	popfq
	RESTORE_GENERAL
	mov %gs:RSP, %rsp
restore_jump:
	jmp *%gs:RIP
	/* As after a return from the kernel, the first trap comes after one instruction of the
	 * program. */
restore_stepping:
	CALM_FLAGS /* iret refuses the nested-task flag */
	pushq $0x2b /* ss */
	pushq %gs:RSP
	pushq %gs:EFLAGS
	pushq $0x33 /* cs */
	pushq %gs:RIP
	RESTORE_GENERAL
restore_stepping_end:
	iretq

	.section .note.GNU-stack, "", @progbits
