/* Makes a thread or process: the child has a stack of its own, and %gs before it needs it. */

	.text
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

	.section .note.GNU-stack, "", @progbits
