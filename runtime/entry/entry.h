/* What entry.S offers. */
#ifndef RETAKE_ENTRY_ENTRY_H
#define RETAKE_ENTRY_ENTRY_H
#include "contract/context.h"

enum { LEAVE_FAST = 0, LEAVE_FULL = 1 };
/* A deferred signal came first: nothing was executed. */
#define CALL_ABORTED (-512L)
i64 call_kernel_window(u64 number, const u64 *arguments);
/* Bytes not copied. */
u64 copy_user(void *destination, const void *source, u64 bytes);
/* -1: fault. */
i64 string_length_user(const char *text, u64 limit);
void restore_full(struct context *context) NORETURN;
void extended_save(void *area, u64 features);
/* Nonzero: the area is invalid. */
u64 extended_restore(const void *area, u64 features);
i64 clone_on_stack(
	u64 flags, u64 stack, u64 parent_tid, u64 child_tid, u64 tls, struct context *child);
void signal_restorer(void);
void signal_entry(void);
void fault_entry(void);
extern const char runtime_text_end[], window_start[], window_call[], window_abort[];
extern const char plain_window_start[], plain_window_call[], plain_window_abort[],
	other_window_start[], other_window_call[], other_window_abort[];
extern const char copy_user_start[], copy_user_end[], copy_user_fixup[];
extern const char string_user_start[], string_user_end[], string_user_fixup[];
u32 hash_user_blocks(const void *bytes, u64 block_count, u64 lanes[4]);
extern const char hash_user_start[], hash_user_end[], hash_user_fixup[];
extern const char extended_restore_at[], extended_restore_fixup[];
void entry_syscall(void);

#endif
