/* Signal frames in the kernel's layout, built and restored here in the same way in record and in
 * replay. Private stack.
 *
 * From low to high addresses a frame has: return address (the restorer), ucontext, siginfo, gap,
 * extended state (64-byte aligned). XSAVE writes the extended state, and its XSTATE_BV is set to a
 * constant. XSAVE stores the initial values of components that are not in use, so declaring all of
 * them in use is the same state, and independent of the processor's in-use tracking. */
#include "signals/frame.h"
#include "base/shared.h"
#include "base/state.h"
#include "base/sys.h"
#include "base/user.h"

#define SA_ONSTACK 0x08000000UL
#define SA_SIGINFO 4UL
#define RED_ZONE 128
#define EXTENDED_MAXIMUM 0x3000
#define MAGIC1 0x46505853u
#define MAGIC2 0x46505845u

struct signal_frame {
	u64 return_address;
	struct user_context user;
	struct siginfo info;
};
_Static_assert(sizeof(struct signal_frame) == 440, "struct rt_sigframe");

struct software_bytes {
	u32 magic1, extended_size;
	u64 features;
	u32 state_size, padding[7];
};

struct extended_area {
	u8 bytes[EXTENDED_MAXIMUM];
} __attribute__((aligned(64)));

static void save_extended(struct extended_area *area)
{
	struct header *header = HEADER;
	memset(area, 0, header->extended_bytes + 8);
	extended_save(area, header->extended_features);
	*(u64 *)(area->bytes + 512) = header->extended_features;
	struct software_bytes software = {MAGIC1, header->extended_bytes + 4,
		header->extended_features, header->extended_bytes, {0}};
	memcpy(area->bytes + 464, &software, sizeof software);
	*(u32 *)(area->bytes + header->extended_bytes) = MAGIC2;
}

#define XMM15 400
#define MXCSR_MASK 0xffffu
#define LEAST_STATE 576 /* x87, SSE and the header */
#define PROTECTION_KEYS (1UL << 9)
#define PKRU_AT_START 0x55555554u

static void initialise_extended(u64 xmm15)
{
	struct extended_area area;
	memset(&area, 0, 576);
	*(u32 *)(area.bytes + 24) = 0x1f80; /* MXCSR */
	*(u16 *)area.bytes = 0x37f;
	*(u64 *)(area.bytes + XMM15) = xmm15;
	/* The area has x87 and SSE. */
	*(u64 *)(area.bytes + 512) = 3 & HEADER->extended_features;
	extended_restore(&area, HEADER->extended_features);
	if (HEADER->extended_features & PROTECTION_KEYS)
		/* The kernel starts programs and handlers with this value. */
		__asm__ volatile("wrpkru" : : "a"(PKRU_AT_START), "c"(0), "d"(0));
}

static u32 within_alternate(const struct context *context, u64 rsp)
{
	return rsp > context->altstack_pointer &&
	       rsp - context->altstack_pointer <= context->altstack_bytes;
}

u32 on_alternate(const struct context *context, u64 rsp)
{
	return !(context->altstack_flags & (SS_DISABLE | SS_AUTODISARM)) &&
	       context->altstack_bytes && within_alternate(context, rsp);
}

/* Builds the frame and points the registers at the handler. Returns 0 if the stack has no room. */
u32 push_frame(struct context *context, u32 number, const struct siginfo *info,
	const struct fault *fault, u64 saved_mask)
{
	const struct signal_action *action = &context->process->actions[number];
	struct registers *regs = &context->regs;
	struct extended_area area;
	u64 extended_bytes = HEADER->extended_bytes + 4;
	u64 at = regs->rsp - RED_ZONE;
	u32 alternates = on_alternate(context, regs->rsp);
	if (action->flags & SA_ONSTACK && !(context->altstack_flags & SS_DISABLE) &&
		context->altstack_bytes && !on_alternate(context, at)) {
		at = context->altstack_pointer + context->altstack_bytes;
		alternates = 1;
	}
	u64 extended = (at - extended_bytes) & ~63UL;
	u64 frame_at = ((extended - sizeof(struct signal_frame) + 8) & ~15UL) - 8;
	if (alternates && !within_alternate(context, frame_at))
		return 0;
	struct signal_frame frame;
	memset(&frame, 0, sizeof frame);
	frame.return_address = action->restorer;
	frame.user.flags = 7; /* UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS */
	frame.user.stack = (struct user_stack){
		context->altstack_pointer, context->altstack_flags, 0, context->altstack_bytes};
	frame.user.machine.regs = *regs;
	frame.user.machine.cs = 0x33;
	frame.user.machine.ss = 0x2b;
	frame.user.machine.error_code = fault->error_code;
	frame.user.machine.trap_number = fault->trap_number;
	frame.user.machine.fault_address = fault->address;
	frame.user.machine.old_mask = saved_mask;
	frame.user.machine.extended = extended;
	frame.user.mask = saved_mask;
	frame.info = *info;
	save_extended(&area);
	if (copy_user((void *)extended, &area, extended_bytes) ||
		copy_user((void *)frame_at, &frame, sizeof frame))
		return 0;
	if (context->altstack_flags & SS_AUTODISARM)
		context->altstack_pointer = 0, context->altstack_bytes = 0,
		context->altstack_flags = SS_DISABLE;
	regs->rdi = number;
	regs->rsi = frame_at + __builtin_offsetof(struct signal_frame, info);
	regs->rdx = frame_at + __builtin_offsetof(struct signal_frame, user);
	regs->rax = 0;
	regs->rsp = frame_at;
	regs->rip = action->handler;
	regs->eflags &= ~0x10500UL; /* direction, trap, resume */
	/* XSAVEC shows whether SSE counts as in use. The processor may drop that while all SSE
	 * registers are zero, at an interruption that replay does not have. So one of them is not
	 * zero; handlers cannot rely on its value. */
	initialise_extended(1);
	return 1;
}

/* Returns whether the frame declares all of the extended state, as the kernel requires. */
static u32 is_whole(const struct software_bytes *software, u64 address)
{
	u32 magic2;
	return software->magic1 == MAGIC1 && software->state_size >= LEAST_STATE &&
	       software->state_size <= HEADER->extended_bytes &&
	       software->state_size <= software->extended_size &&
	       !copy_user(&magic2, (const void *)(address + software->state_size), 4) &&
	       magic2 == MAGIC2;
}

u32 restore_extended(u64 address)
{
	struct extended_area area;
	if (!address) {
		initialise_extended(0);
		return 1;
	}
	u64 bytes = HEADER->extended_bytes;
	if (copy_user(&area, (const void *)address, bytes))
		return 0;
	struct software_bytes software;
	memcpy(&software, area.bytes + 464, sizeof software);
	u32 *mxcsr = (u32 *)(area.bytes + 24);
	if (is_whole(&software, address)) {
		*(u64 *)(area.bytes + 512) &= software.features & HEADER->extended_features;
		memset(area.bytes + 520, 0, 56);
		if (*mxcsr & ~MXCSR_MASK)
			return 0;
	} else { /* only x87 and SSE, as FXSAVE wrote */
		memset(area.bytes + 512, 0, 64), *(u64 *)(area.bytes + 512) = 3;
		*mxcsr &= MXCSR_MASK;
	}
	return extended_restore(&area, HEADER->extended_features) == 0;
}
