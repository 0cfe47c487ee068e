/* Code that touches the program's memory, extended state and stack, and may fault there. The master
 * handler knows these places and goes on at their fixups. The window for calls that may wait is
 * here, too.
 *
 * Context: on the private stack or in the master handler. Only general registers are used, except
 * where extended state is saved on purpose. */
#include "contract/offsets.h"

	.text
/* call_kernel_window(number, arguments): makes calls that may wait, as kernel_window_here in call.c
 * does. A signal that arrives before the instruction moves the thread to window_abort. So does a
 * signal after which the kernel restarts the call: it finds rip at window_call. */
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

/* copy_user(destination, source, bytes): returns the number of bytes not copied. Either side may be
 * the program's memory and fault. */
	.globl copy_user, copy_user_start, copy_user_end, copy_user_fixup
copy_user:
	mov %rdx, %rcx
copy_user_start:
	cmp $512, %rcx /* below this, starting a string instruction costs more than it saves */
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
	mov -8(%rsi,%rcx), %rax /* copies the tail together with bytes before it */
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
	mov %rdx, %rax /* no caller needs to know how much was copied */
	ret

/* string_length_user(text, limit): returns the bytes before the NUL, limit if there is none, -1 on
 * a fault. */
	.globl string_length_user, string_user_start, string_user_end, string_user_fixup
string_length_user:
	mov %rdi, %rdx /* reads whole words, none of which crosses a page */
	and $-8, %rdx
	mov %edi, %ecx
	and $7, %ecx
	shl $3, %ecx
	mov $-1, %r8
	shl %cl, %r8
	not %r8 /* the bytes before the text must not count as NULs */
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

/* hash_user_blocks(bytes, block_count, lanes[4]): mixes 32-byte blocks into four lanes. Returns 0,
 * or 1 after a fault. */
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

/* The restorer of the kernel's own signal frames. */
	.globl signal_restorer
	.balign 16
	nop
signal_restorer:
	mov $15, %rax
	syscall

	.section .note.GNU-stack, "", @progbits
