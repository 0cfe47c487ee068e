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
	jz .Lborn
	ret

/* clone3_on_stack(fields, bytes, child): the same, and `fields` says on which stack. */
	.globl clone3_on_stack
clone3_on_stack:
	mov %rdx, %r9
	mov $435, %eax
	syscall
	test %rax, %rax
	jz .Lborn
	ret

.Lborn:	mov $158, %eax /* arch_prctl(ARCH_SET_GS): before the first use of %gs */
	mov $0x1001, %edi
	mov %r9, %rsi
	syscall
	mov %r9, %rdi
	xor %ebp, %ebp
	call child_start
	ud2

/* image_copy(number): a copy of this process, whose number goes to *number. What makes it shares
 * the memory, as after vfork, and ends at once. So nobody here is the copy's parent. Returns what
 * the clone of the maker does; in the copy 0. */
	.globl image_copy
image_copy:
	mov %rdi, %r9
	mov $56, %eax
	mov $0x4100, %edi /* CLONE_VM | CLONE_VFORK, and no signal when it ends */
	xor %esi, %esi
	xor %edx, %edx
	xor %r10d, %r10d
	syscall
	test %rax, %rax
	jnz 1f
	mov %r9, %rdx
	mov $56, %eax
	mov $0x100000, %edi /* CLONE_PARENT_SETTID */
	xor %esi, %esi
	syscall
	test %rax, %rax
	jz 1f
	mov $60, %eax
	xor %edi, %edi
	syscall
	ud2
1:	ret

	.section .note.GNU-stack, "", @progbits
