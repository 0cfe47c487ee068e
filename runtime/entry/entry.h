/* What entry.S offers. */
#ifndef RETAKE_ENTRY_ENTRY_H
#define RETAKE_ENTRY_ENTRY_H
#include "contract/context.h"

/* Handles a system call, with the program's registers in the context. Returns LEAVE_*. */
u32 runtime_syscall(struct context *context);
void fault_entry(void);
void force_entry(void);
void entry_syscall(void);
/* As the entries of these names, but with all registers in the context. */
void entry_syscall_saved(void);
void entry_passage_saved(void);
void entry_binding_saved(void);
void section_begin_saved(void);
void section_end_saved(void);
void object_begin_entry_saved(void);
void condition_begin_entry_saved(void);
void compare_begin_whole_saved(void);
void compare_end_whole_saved(void);

#endif
