/* The handler that the kernel has for every signal.
 *
 * Context: the alternate stack; general registers only. */
#include "contract/offsets.h"

	.text
/* The kernel enters with the program's alignment check, which is cleared here. It keeps the
 * nested-task flag, too, both on entry and on return, so nothing else may change here. */
	.globl signal_entry
signal_entry:
	pushfq
	andl $~FLAG_ALIGNMENT, (%rsp)
	popfq
	jmp master_handler

	.section .note.GNU-stack, "", @progbits
