/* What entry.S offers. */
#ifndef RETAKE_ENTRY_ENTRY_H
#define RETAKE_ENTRY_ENTRY_H
#include "contract/context.h"

void restore_full(struct context *context) NORETURN;
void signal_entry(void);
void fault_entry(void);
void entry_syscall(void);
/* Behind which the registers are on their way from the context, and the trap flag is too. */
void restore_stepping(void);
/* The instructions that fault when the program is to go on at no address. */
void restore_jump(void);
void restore_stepping_end(void);
/* As the entries of these names, with all registers in the context. */
void entry_syscall_saved(void);
void entry_passage_saved(void);
void section_begin_saved(void);
void section_end_saved(void);
void compare_begin_whole_saved(void);
void compare_end_whole_saved(void);

#endif
