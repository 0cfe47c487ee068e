/* What the kernel is given as the handler of every signal.
 *
 * Context: the alternate stack; general registers only. */
#include "contract/offsets.h"

	.text
/* The kernel leaves the program's alignment check as it was. It leaves the nested-task flag too, on
 * the way in and on the way back, so here nothing else may change. */
	.globl signal_entry
signal_entry:
	pushfq
	andl $~FLAG_ALIGNMENT, (%rsp)
	popfq
	jmp master_handler

	.section .note.GNU-stack, "", @progbits
