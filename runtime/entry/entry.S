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
	.globl runtime_text_start
runtime_text_start:
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
	.globl debug_event
debug_event:
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
	cld
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
	mov %gs:CONTEXT_SELF, %rdi
	call runtime_syscall
	test %eax, %eax
	jnz leave_full
	jmp leave_kept
	/* Direction flag set: leave_full restores all registers, so all have to be saved. */
2:	bt $10, %eax
	jc 1b
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
	bt $10, %r11d
	jc leave_full /* direction flag set: only popf restores it */
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
	cld
	mov %gs:CONTEXT_SCRATCH, %rcx
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
	lahf
	seto %al
	mov %rax, %gs:EFLAGS
	mov %rsp, %gs:RSP
	mov %gs:CONTEXT_STACK_TOP, %rsp
	mov %rdx, %gs:RDX
	mov %rsi, %gs:RSI
	mov %rdi, %gs:RDI
	mov %r8, %gs:R8
	mov %r9, %gs:R9
	mov %r10, %gs:R10
	mov %r11, %gs:R11
	mov %gs:CONTEXT_SELF, %rdi
	call \function
	mov %gs:EFLAGS, %rax
	add $0x7f, %al /* overflow flag */
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

/* Every register exactly as struct context says. */
	.globl restore_full
restore_full:
leave_full:
	mov %gs:CONTEXT_STACK_TOP, %rsp
	mov %gs:CONTEXT_PAUSE_AT, %rax
	dec %rax
	cmp %rax, %gs:CONTEXT_EVENT_COUNT
	jae runtime_pause
restore_registers:
	pushq %gs:EFLAGS
	popfq
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
	mov %gs:RSP, %rsp
	jmp *%gs:RIP

/* call_kernel_window(number, arguments): where calls that may wait are made, with
 * kernel_window_here in call.c. A signal that arrives before the instruction moves us to
 * window_abort; one that makes the kernel restart the call finds rip at window_call: the same. */
	.globl call_kernel_window, window_start, window_call, window_abort
call_kernel_window:
	mov %rdi, %rax
	mov 40(%rsi), %r9
	mov 32(%rsi), %r8
	mov 24(%rsi), %r10
	mov 16(%rsi), %rdx
	mov 0(%rsi), %rdi
	mov 8(%rsi), %rsi
window_start:
	cmpl $0, %gs:CONTEXT_DEFERRED_COUNT
	jne window_abort
window_call:
	syscall
	ret
window_abort:
	mov $-512, %rax
	ret

/* copy_user(destination, source, bytes): bytes not copied. Either side may be the program's memory
 * and fault. */
	.globl copy_user, copy_user_start, copy_user_end, copy_user_fixup
copy_user:
	mov %rdx, %rcx
copy_user_start:
	cmp $512, %rcx /* below, starting a string instruction costs more than it saves */
	ja 4f
	sub $32, %rcx
	jb 2f
1:	mov 0(%rsi), %rax
	mov 8(%rsi), %r8
	mov 16(%rsi), %r9
	mov 24(%rsi), %r10
	mov %rax, 0(%rdi)
	mov %r8, 8(%rdi)
	mov %r9, 16(%rdi)
	mov %r10, 24(%rdi)
	add $32, %rsi
	add $32, %rdi
	sub $32, %rcx
	jae 1b
2:	add $32, %rcx
	jz copy_user_end
3:	sub $8, %rcx
	jb 5f
	mov (%rsi), %rax
	mov %rax, (%rdi)
	add $8, %rsi
	add $8, %rdi
	jmp 3b
5:	add $8, %rcx
	jz copy_user_end
	cmp $8, %rdx
	jb 6f
	mov -8(%rsi,%rcx), %rax /* once more with the bytes before */
	mov %rax, -8(%rdi,%rcx)
	xor %ecx, %ecx
	jmp copy_user_end
6:	movzbl (%rsi), %eax
	mov %al, (%rdi)
	inc %rsi
	inc %rdi
	dec %rcx
	jnz 6b
	jmp copy_user_end
4:	rep movsb
copy_user_end:
	mov %rcx, %rax
	ret
copy_user_fixup:
	mov %rdx, %rax /* how much was copied does not matter to any caller */
	ret

/* string_length_user(text, limit): bytes before the NUL, limit if there is none, -1 on a fault. */
	.globl string_length_user, string_user_start, string_user_end, string_user_fixup
string_length_user:
	mov %rdi, %rdx /* by words, none of which goes on in another page */
	and $-8, %rdx
	mov %edi, %ecx
	and $7, %ecx
	shl $3, %ecx
	mov $-1, %r8
	shl %cl, %r8
	not %r8 /* what is before the text is no NUL */
	mov $0x0101010101010101, %r9
	mov $0x8080808080808080, %r10
string_user_start:
	mov (%rdx), %rax
	or %r8, %rax
1:	mov %rax, %rcx
	sub %r9, %rcx
	not %rax
	and %rax, %rcx
	and %r10, %rcx /* the highest bit of the first NUL */
	jnz 2f
	add $8, %rdx
	mov %rdx, %rax
	sub %rdi, %rax
	cmp %rsi, %rax
	jae 3f
	mov (%rdx), %rax
	jmp 1b
2:	bsf %rcx, %rcx
	shr $3, %ecx
	lea (%rdx,%rcx), %rax
	sub %rdi, %rax
	cmp %rsi, %rax
	jbe string_user_end
3:	mov %rsi, %rax
string_user_end:
	ret
string_user_fixup:
	mov $-1, %rax
	ret

	.globl extended_save, extended_restore, extended_restore_at, extended_restore_fixup
extended_save:
	mov %esi, %eax
	mov %rsi, %rdx
	shr $32, %rdx
	xsave64 (%rdi)
	ret
extended_restore:
	mov %esi, %eax
	mov %rsi, %rdx
	shr $32, %rdx
extended_restore_at:
	xrstor64 (%rdi)
	xor %eax, %eax
	ret
extended_restore_fixup:
	mov $1, %eax
	ret

/* clone_on_stack(flags, stack, parent_tid, child_tid, tls, child): the child goes to
 * child_start(child) on its own stack. */
	.globl clone_on_stack
clone_on_stack:
	mov %rcx, %r10
	mov $56, %eax
	syscall
	test %rax, %rax
	jz 1f
	ret
1:	mov $158, %eax /* arch_prctl(ARCH_SET_GS): before the first use of %gs */
	mov $0x1001, %edi
	mov %r9, %rsi
	syscall
	mov %r9, %rdi
	xor %ebp, %ebp
	call child_start
	ud2

/* call_on_stack(stack, function, a, b, c) */
	.globl call_on_stack
call_on_stack:
	mov %rdi, %rsp
	mov %rsi, %rax
	mov %rdx, %rdi
	mov %rcx, %rsi
	mov %r8, %rdx
	xor %ebp, %ebp
	call *%rax
	ud2

	.globl signal_restorer
	.balign 16
	nop
signal_restorer:
	mov $15, %rax
	syscall

	.globl signal_entry
signal_entry:
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
	mov $0x550040010000, %rdi
	mov $0x50000, %esi
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
	mov $0x550040040000, %rsp
	xor %ebp, %ebp
	call record_start
1:	mov $231, %eax
	mov $125, %edi
	syscall
	ud2

	.section .note.GNU-stack, "", @progbits
	.text
/* hash_user_blocks(bytes, block_count, lanes[4]): mixes 32-byte blocks into four lanes; 0, or 1
 * after a fault. */
	.globl hash_user_blocks, hash_user_start, hash_user_end, hash_user_fixup
hash_user_blocks:
	push %rbx
	push %r12
	mov %rdx, %r12
	mov 0(%rdx), %r8
	mov 8(%rdx), %r9
	mov 16(%rdx), %r10
	mov 24(%rdx), %r11
	mov $0x9e3779b97f4a7c15, %rbx
	test %rsi, %rsi
	jz hash_user_end
hash_user_start:
1:	xor 0(%rdi), %r8
	xor 8(%rdi), %r9
	xor 16(%rdi), %r10
	xor 24(%rdi), %r11
	imul %rbx, %r8
	imul %rbx, %r9
	imul %rbx, %r10
	imul %rbx, %r11
	rol $29, %r8
	rol $29, %r9
	rol $29, %r10
	rol $29, %r11
	add $32, %rdi
	dec %rsi
	jnz 1b
hash_user_end:
	mov %r8, 0(%r12)
	mov %r9, 8(%r12)
	mov %r10, 16(%r12)
	mov %r11, 24(%r12)
	xor %eax, %eax
	pop %r12
	pop %rbx
	ret
hash_user_fixup:
	mov $1, %eax
	pop %r12
	pop %rbx
	ret

/* Where a thread goes on that was stopped in its own code; its registers are in the context. */
	.globl force_entry
force_entry:
	mov %gs:CONTEXT_SELF, %rdi
	call runtime_forced
	jmp restore_full
