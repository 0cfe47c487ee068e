/* Makes a thread or process. The child gets its own stack, and %gs before its first use. */

	.text
/* clone_on_stack(flags, stack, parent_tid, child_tid, tls, child): the child calls
 * child_start(child) on its own stack. */
	.globl clone_on_stack
clone_on_stack:
	mov %rcx, %r10
	mov $56, %eax
	syscall
	test %rax, %rax
	jz .Lborn
	ret

/* clone3_on_stack(fields, bytes, child): the same, with the stack in `fields`. */
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

/* image_copy(number): makes a copy of this process and stores its number in *number. The copy is
 * made by an intermediate process, which shares the memory as after vfork and ends at once. So the
 * copy has no parent here. Returns the number of the intermediate process or an error; in the copy
 * 0. */
	.globl image_copy
image_copy:
	mov %rdi, %r9
	mov $56, %eax
	mov $0x4100, %edi /* CLONE_VM | CLONE_VFORK, without an exit signal */
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
