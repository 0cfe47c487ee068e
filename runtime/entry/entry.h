/* What entry.S offers. */
#ifndef RETAKE_ENTRY_ENTRY_H
#define RETAKE_ENTRY_ENTRY_H
#include "contract/context.h"

void restore_full(struct context *context) NORETURN;
void signal_entry(void);
void fault_entry(void);
void entry_syscall(void);

#endif
