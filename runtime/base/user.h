/* What user.S offers: the program's memory, extended state, and the window in which calls wait. */
#ifndef RETAKE_BASE_USER_H
#define RETAKE_BASE_USER_H
#include "base/types.h"

/* A deferred signal arrived first, and nothing was executed. */
#define CALL_ABORTED (-512L)
i64 call_kernel_window(u64 number, const u64 *arguments);
extern const char window_start[], window_call[], window_abort[];

/* Returns the number of bytes that were not copied. */
u64 copy_user(void *destination, const void *source, u64 bytes);
extern const char copy_user_start[], copy_user_end[], copy_user_fixup[];

/* Returns -1 on a fault. */
i64 string_length_user(const char *text, u64 limit);
extern const char string_user_start[], string_user_end[], string_user_fixup[];

u32 hash_user_blocks(const void *bytes, u64 block_count, u64 lanes[4]);
extern const char hash_user_start[], hash_user_end[], hash_user_fixup[];

void extended_save(void *area, u64 features);
/* Returns nonzero if the area is invalid. */
u64 extended_restore(const void *area, u64 features);
extern const char extended_restore_at[], extended_restore_fixup[];

void signal_restorer(void);
void call_on_stack(u64 stack, void (*function)(u64, u64, u64), u64 a, u64 b, u64 c) NORETURN;

#endif
