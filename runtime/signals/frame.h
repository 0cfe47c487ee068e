/* What frame.c offers, and the parts of the kernel's frames. */
#ifndef RETAKE_SIGNALS_FRAME_H
#define RETAKE_SIGNALS_FRAME_H
#include "contract/context.h"

struct machine_context {
	struct registers regs;
	u16 cs, gs, fs, ss;
	u64 error_code, trap_number, old_mask, fault_address, extended, reserved[8];
};
struct user_stack {
	u64 pointer;
	u32 flags, padding;
	u64 bytes;
};
struct user_context {
	u64 flags, link;
	struct user_stack stack;
	struct machine_context machine;
	u64 mask;
};
_Static_assert(sizeof(struct user_context) == 304, "struct ucontext");
#define SS_ONSTACK 1u
#define SS_DISABLE 2u
#define SS_AUTODISARM 0x80000000u

u32 push_frame(struct context *context, u32 number, const struct siginfo *info,
	const struct fault *fault, u64 saved_mask);
/* Returns whether the thread is on its alternate stack. */
u32 on_alternate(const struct context *context, u64 rsp);
/* Returns 0 if the state at `address` is missing or invalid. */
u32 restore_extended(u64 address);

#endif
