/* The entries of the program to the runtime, and of recorded programs.
 *
 * Context: runs on the program's stack pointer until the switch, which happens before the first
 * write to memory; the red zone is never touched. %gs holds the thread's struct context. Only
 * general registers are used, except where extended state is saved on purpose. */
#include "contract/offsets.h"
#include "base/registers.h"

	.section .text.entry, "ax"
/* The entry table, whose offsets the stubs of every image know. */
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
	nop
	jmp restore_registers
	.org ENTRY_REMOTE_CALL
	syscall
	int3
	.org ENTRY_DEBUG_EVENT
	nop
	ret
	.org ENTRY_SECTION_BEGIN
	jmp quick_begin
	.org ENTRY_SECTION_END
	jmp quick_end
	.org ENTRY_COMPARE_BEGIN
	jmp quick_compare_begin
	.org ENTRY_COMPARE_END
	jmp quick_compare_end
	.org ENTRY_OBJECT_BEGIN
	jmp quick_object_begin
	.org ENTRY_CONDITION_BEGIN
	jmp condition_begin_entry
	.org ENTRY_PASSAGE
	jmp entry_passage
	.org ENTRY_IMAGE
	mov %gs:CONTEXT_SELF, %rdi
	call image_enter
	ud2
	.org ENTRY_ATTACH
	call attach_step
	int3
	.org ENTRY_BINDING
	jmp entry_binding

	.text
/* A system call. rax has its number, rcx the address after the program's `syscall`. */
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
	/* From the master handler, which has saved all registers. */
	.globl entry_syscall_saved
entry_syscall_saved:
	mov %gs:CONTEXT_SELF, %rdi
	call runtime_syscall
	test %eax, %eax
	jnz restore_full
	jmp leave_kept
calm_syscall:
	CALM_FLAGS
	jmp syscall_calm
	/* With odd flags, restore_full restores all registers, so all have to be saved. */
2:	test $FLAG_ODD, %eax
	jnz 1b
	mov %gs:CONTEXT_SELF, %rdi
	call replay_plain
	test %eax, %eax
	jz 1b
	jmp leave_kept

/* RDTSC and similar instructions. %gs:CONTEXT_SCRATCH has the program's rcx, rcx the address to go
 * on at. */
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
	jmp restore_full
	.endm
	INSTRUCTION_ENTRY entry_tsc, 0
	INSTRUCTION_ENTRY entry_tscp, 1
	INSTRUCTION_ENTRY entry_cpuid, 2
	INSTRUCTION_ENTRY entry_passage, 5
	INSTRUCTION_ENTRY entry_binding, 6

/* The beginning or end of a section, under the sync policy. Under another policy this does nothing;
 * the text may have been patched for another recording. No register or flag may change. Registers
 * that compiled code keeps are not even saved. */
	.macro SECTION_NAME name
1:	mov %gs:CONTEXT_SCRATCH, %rcx
	jmp *%gs:RIP
\name:
	mov %rcx, %gs:RIP
	mov %gs:CONTEXT_SECTIONS, %ecx
	jrcxz 1b
	.endm
	.macro SECTION_ENTRY name, function, saved
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
	test $SECTIONS_WHOLE | SECTIONS_SIGNALLED, %cl
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
	/* Only popf restores odd flags, and restore_full restores all registers. It also pauses. */
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
	call \saved
	jmp restore_full
	.endm
	SECTION_ENTRY section_begin, section_begins, section_begins
	SECTION_ENTRY section_end, section_ends, runtime_section_ends
	SECTION_ENTRY object_begin_entry, object_begins, object_begins
	SECTION_ENTRY condition_begin_entry, condition_begins, condition_begins
	SECTION_ENTRY operation_wakes_entry, operation_wakes, operation_wakes

/* The same for a compare-and-exchange: the runtime reads registers and flags, and may change them.
 */
	.macro COMPARE_ENTRY name, which
	INSTRUCTION_ENTRY \name\()_whole, \which
	SECTION_NAME \name
	mov %gs:RIP, %rcx
	jmp \name\()_whole
	.endm
	COMPARE_ENTRY compare_begin, 3
	COMPARE_ENTRY compare_end, 4

#include "entry/operation.inc"

/* After a synchronous fault in the program. The master handler saved the registers and continued
 * the thread here. */
	.globl fault_entry
fault_entry:
	mov %gs:CONTEXT_SELF, %rdi
	call runtime_fault
	jmp restore_full

/* The code in the vDSO's padding jumps here right after exec. r12 has the header segment, r13 the
 * slot, r14 the program's first instruction. The program's stack must not be used, so this maps the
 * runtime's own first. */
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

/* Where a thread goes on that was stopped in its own code. Its registers are in the context. */
	.globl force_entry
force_entry:
	mov %gs:CONTEXT_SELF, %rdi
	call runtime_forced
	jmp restore_full

	.section .note.GNU-stack, "", @progbits
