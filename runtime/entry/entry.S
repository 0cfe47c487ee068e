/* Where the program comes in and goes out.
 *
 * Context: runs on the program's stack pointer until the switch, which happens before the first
 * write to memory; the red zone is never touched. %gs holds the thread's struct context. Only
 * general registers are used, except where extended state is saved on purpose. */
#include "contract/offsets.h"

/* The program's registers, as %gs finds them. */
#define R8 CONTEXT_REGS + REGISTERS_R8
#define R9 CONTEXT_REGS + REGISTERS_R9
#define R10 CONTEXT_REGS + REGISTERS_R10
#define R11 CONTEXT_REGS + REGISTERS_R11
#define R12 CONTEXT_REGS + REGISTERS_R12
#define R13 CONTEXT_REGS + REGISTERS_R13
#define R14 CONTEXT_REGS + REGISTERS_R14
#define R15 CONTEXT_REGS + REGISTERS_R15
#define RDI CONTEXT_REGS + REGISTERS_RDI
#define RSI CONTEXT_REGS + REGISTERS_RSI
#define RBP CONTEXT_REGS + REGISTERS_RBP
#define RBX CONTEXT_REGS + REGISTERS_RBX
#define RDX CONTEXT_REGS + REGISTERS_RDX
#define RAX CONTEXT_REGS + REGISTERS_RAX
#define RCX CONTEXT_REGS + REGISTERS_RCX
#define RSP CONTEXT_REGS + REGISTERS_RSP
#define RIP CONTEXT_REGS + REGISTERS_RIP
#define EFLAGS CONTEXT_REGS + REGISTERS_EFLAGS

	.section .text.entry, "ax"
/* The entry table, known to the stubs of every image. */
	.org ENTRY_SYSCALL
	jmp entry_syscall
	.org ENTRY_TSC
	jmp entry_tsc
	.org ENTRY_TSCP
	jmp entry_tscp
	.org ENTRY_CPUID
	jmp entry_cpuid
	.org ENTRY_RECORD
	jmp start_record
	.org ENTRY_REPLAY
	.globl start_replay
start_replay:
	mov %rsp, %rdi
	and $-16, %rsp
	call replay_start
	ud2
	.org ENTRY_PAUSE
runtime_pause:
	nop
	jmp restore_registers
	.org ENTRY_REMOTE_CALL
	syscall
	int3
	.org ENTRY_DEBUG_EVENT
	nop
	ret
	.org ENTRY_SECTION_BEGIN
	jmp section_begin
	.org ENTRY_SECTION_END
	jmp section_end
	.org ENTRY_COMPARE_BEGIN
	jmp compare_begin
	.org ENTRY_COMPARE_END
	jmp compare_end
	.org ENTRY_PASSAGE
	jmp entry_passage

	.text
/* Flags as compiled code wants them, on a stack of ours. */
	.macro CALM_FLAGS
	pushq $2
	popfq
	.endm

/* A system call. rax = number, rcx = address after the program's `syscall`. */
	.globl entry_syscall
entry_syscall:
	mov %rsp, %gs:RSP
	mov %gs:CONTEXT_STACK_TOP, %rsp
	mov %rax, %gs:RAX
	mov %rcx, %gs:RIP
	mov %rcx, %gs:RCX
	pushfq
	popq %gs:EFLAGS
	testl $FLAG_ODD, %gs:EFLAGS
	jnz calm_syscall
syscall_calm:
	mov %r8, %gs:R8
	mov %r9, %gs:R9
	mov %r10, %gs:R10
	mov %rdi, %gs:RDI
	mov %rsi, %gs:RSI
	mov %rdx, %gs:RDX
	mov %gs:EFLAGS, %rax
	mov %rax, %gs:R11
	cmpq $0, %gs:CONTEXT_LOG
	jne 2f
1:	mov %r12, %gs:R12
	mov %r13, %gs:R13
	mov %r14, %gs:R14
	mov %r15, %gs:R15
	mov %rbp, %gs:RBP
	mov %rbx, %gs:RBX
	/* From the master handler, which has saved them all. */
	.globl entry_syscall_saved
entry_syscall_saved:
	mov %gs:CONTEXT_SELF, %rdi
	call runtime_syscall
	test %eax, %eax
	jnz leave_full
	jmp leave_kept
calm_syscall:
	CALM_FLAGS
	jmp syscall_calm
	/* Odd flags: leave_full restores all registers, so all have to be saved. */
2:	test $FLAG_ODD, %eax
	jnz 1b
	mov %gs:CONTEXT_SELF, %rdi
	call replay_plain
	test %eax, %eax
	jz 1b
	jmp leave_kept
	/* Fast, from the middle of compiled code that does not return: see runtime_syscall. */
	.globl leave_fast
leave_fast:
	mov %gs:RBX, %rbx
	mov %gs:RBP, %rbp
	mov %gs:R12, %r12
	mov %gs:R13, %r13
	mov %gs:R14, %r14
	mov %gs:R15, %r15
leave_kept:
	/* Fast: the compiled code kept the callee-saved registers. */
	mov %gs:EFLAGS, %r11
	test $FLAG_ODD, %r11d
	jnz leave_full /* only popf restores them */
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

/* RDTSC and friends. %gs:CONTEXT_SCRATCH = the program's rcx, rcx = where to go on. */
	.macro INSTRUCTION_ENTRY name, which
\name:
	mov %rsp, %gs:RSP
	mov %gs:CONTEXT_STACK_TOP, %rsp
	mov %rcx, %gs:RIP
	pushfq
	popq %gs:EFLAGS
	testl $FLAG_ODD, %gs:EFLAGS
	jz 1f
	CALM_FLAGS
1:	mov %gs:CONTEXT_SCRATCH, %rcx
	mov %rcx, %gs:RCX
	mov %rax, %gs:RAX
	mov %r8, %gs:R8
	mov %r9, %gs:R9
	mov %r10, %gs:R10
	mov %r11, %gs:R11
	mov %r12, %gs:R12
	mov %r13, %gs:R13
	mov %r14, %gs:R14
	mov %r15, %gs:R15
	mov %rdi, %gs:RDI
	mov %rsi, %gs:RSI
	mov %rbp, %gs:RBP
	mov %rbx, %gs:RBX
	mov %rdx, %gs:RDX
	.globl \name\()_saved
\name\()_saved:
	mov %gs:CONTEXT_SELF, %rdi
	mov $\which, %esi
	call runtime_instruction
	jmp leave_full
	.endm
	INSTRUCTION_ENTRY entry_tsc, 0
	INSTRUCTION_ENTRY entry_tscp, 1
	INSTRUCTION_ENTRY entry_cpuid, 2
	INSTRUCTION_ENTRY entry_passage, 5

/* Where a section begins or ends, under the sync policy; without it (the text may have been
 * patched for another recording) nothing is done. No register or flag may change; those that
 * compiled code keeps are not even saved. */
	.macro SECTION_NAME name
1:	mov %gs:CONTEXT_SCRATCH, %rcx
	jmp *%gs:RIP
\name:
	mov %rcx, %gs:RIP
	mov %gs:CONTEXT_SECTIONS, %ecx
	jrcxz 1b
	.endm
	.macro SECTION_ENTRY name, function
	SECTION_NAME \name
	mov %rax, %gs:RAX
	mov %rsp, %gs:RSP
	mov %gs:CONTEXT_STACK_TOP, %rsp
	pushfq
	popq %gs:EFLAGS
	mov %rdx, %gs:RDX
	mov %rsi, %gs:RSI
	mov %rdi, %gs:RDI
	mov %r8, %gs:R8
	mov %r9, %gs:R9
	mov %r10, %gs:R10
	mov %r11, %gs:R11
	test $SECTIONS_WHOLE, %cl
	jnz 2f
	testl $FLAG_ODD, %gs:EFLAGS
	jnz 2f
	mov %gs:CONTEXT_SELF, %rdi
	call \function
	mov %gs:EFLAGS, %edx
	mov %edx, %eax
	shr $11, %eax
	and $1, %eax
	add $0x7f, %al /* overflow flag */
	mov %edx, %eax
	mov %al, %ah
	sahf
	mov %gs:RAX, %rax
	mov %gs:RDX, %rdx
	mov %gs:RSI, %rsi
	mov %gs:RDI, %rdi
	mov %gs:R8, %r8
	mov %gs:R9, %r9
	mov %gs:R10, %r10
	mov %gs:R11, %r11
	mov %gs:RSP, %rsp
	mov %gs:CONTEXT_SCRATCH, %rcx
	jmp *%gs:RIP
	/* Only popf restores odd flags, and leave_full all registers; it pauses, too. */
2:	CALM_FLAGS
	mov %gs:CONTEXT_SCRATCH, %rcx
	mov %rcx, %gs:RCX
	mov %r12, %gs:R12
	mov %r13, %gs:R13
	mov %r14, %gs:R14
	mov %r15, %gs:R15
	mov %rbp, %gs:RBP
	mov %rbx, %gs:RBX
	.globl \name\()_saved
\name\()_saved:
	mov %gs:CONTEXT_SELF, %rdi
	call \function
	jmp leave_full
	.endm
	SECTION_ENTRY section_begin, section_begins
	SECTION_ENTRY section_end, section_ends

/* The same for those that are a compare-and-exchange: the runtime reads and may change registers
 * and flags. */
	.macro COMPARE_ENTRY name, which
	INSTRUCTION_ENTRY \name\()_whole, \which
	SECTION_NAME \name
	mov %gs:RIP, %rcx
	jmp \name\()_whole
	.endm
	COMPARE_ENTRY compare_begin, 3
	COMPARE_ENTRY compare_end, 4

/* After a synchronous fault in the program: the master handler saved the registers and sent us
 * here. */
	.globl fault_entry
fault_entry:
	mov %gs:CONTEXT_SELF, %rdi
	call runtime_fault
	jmp leave_full

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

/* Every register exactly as struct context says. */
	.globl restore_full, restore_jump, restore_stepping, restore_stepping_end
restore_full:
leave_full:
	mov %gs:CONTEXT_STACK_TOP, %rsp
	mov %gs:CONTEXT_PAUSE_AT, %rax
	dec %rax
	cmp %rax, %gs:CONTEXT_EVENT_COUNT
	jae runtime_pause
restore_registers:
	testl $FLAG_TRAP, %gs:EFLAGS
	jnz restore_stepping
	pushq %gs:EFLAGS
	popfq
	RESTORE_GENERAL
	mov %gs:RSP, %rsp
restore_jump:
	jmp *%gs:RIP
	/* As the kernel does it: the first trap comes behind an instruction of the program. */
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

/* The kernel leaves the program's alignment check as it was. It leaves the nested-task flag too, on
 * the way in and on the way back, so here nothing else may change. */
	.globl signal_entry
signal_entry:
	pushfq
	andl $~FLAG_ALIGNMENT, (%rsp)
	popfq
	jmp master_handler

/* From the bootstrap in the vDSO's padding, right after exec: r12 = header segment, r13 = slot,
 * r14 = the program's first instruction. The program's stack is not ours to use: map our own
 * first. */
start_record:
	mov $9, %eax /* mmap(RUNTIME_DATA, 64 KB, read write, private anonymous fixed) */
	mov $0x550010000000, %rdi
	mov $0x10000, %esi
	mov $3, %edx
	mov $0x32, %r10d
	mov $-1, %r8
	xor %r9d, %r9d
	syscall
	mov $9, %eax /* mmap(region 0) */
	mov $REGIONS, %rdi
	mov $REGION_STRIDE, %esi
	mov $3, %edx
	mov $0x32, %r10d
	mov $-1, %r8
	xor %r9d, %r9d
	syscall
	mov $30, %eax /* shmat(header) */
	mov %r12, %rdi
	mov $0x550020000000, %rsi
	xor %edx, %edx
	syscall
	mov $0x550020000000, %rsi
	cmp %rax, %rsi
	jne 1f
	mov %r13, %rdi
	mov %r14, %rsi
	mov %rsp, %rdx
	mov $REGIONS + REGION_STACK_TOP, %rsp
	xor %ebp, %ebp
	call record_start
1:	mov $231, %eax
	mov $125, %edi
	syscall
	ud2

/* Where a thread goes on that was stopped in its own code; its registers are in the context. */
	.globl force_entry
force_entry:
	mov %gs:CONTEXT_SELF, %rdi
	call runtime_forced
	jmp restore_full

	.section .note.GNU-stack, "", @progbits
