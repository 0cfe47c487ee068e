/* Tracks which descriptors lead to the program's original standard output and error, or to its
 * memory. Recording only: replay reads it from the events. Private stack. */
#include "mode/descriptors.h"
#include "base/decimal.h"
#include "base/interception.h"
#include "base/shared.h"
#include "base/state.h"
#include "base/sys.h"
#include "base/user.h"
#include "gen/numbers.h"
#include "mode/call.h"
#include "mode/maps.h"

#define EACCES 13
#define EMFILE 24
#define PROC_SUPER_MAGIC 0x9fa0
#define SOL_SOCKET 1
#define SCM_RIGHTS 1
#define TIOCGDEV 0x80045432
#define CHARACTER_DEVICE 0020000u
#define WRITES 3UL		/* O_WRONLY | O_RDWR */
#define WAITS_FOR_DISK 050000UL /* O_DSYNC | O_DIRECT */
#define F_SETFL 4
#define MSG_DONTWAIT 0x40
#define SENDS_OR_RECEIVES                                                        \
	(1UL << NR_read | 1UL << NR_write | 1UL << NR_readv | 1UL << NR_writev | \
		1UL << NR_sendto | 1UL << NR_recvfrom | 1UL << NR_sendmsg | 1UL << NR_recvmsg)

/* Returns the index of a high descriptor, or high_count. */
static u32 find_high(const struct descriptor_uses *uses, u64 descriptor)
{
	u32 i = 0;
	while (i < uses->high_count && uses->high[i].descriptor != descriptor)
		i++;
	return i;
}

static void remove_high(struct descriptor_uses *uses, u32 i)
{
	uses->high[i] = uses->high[--uses->high_count];
}

/* Returns 1 if no entry is free for another high descriptor. */
static u32 set_use(struct process *process, u64 descriptor, u32 use)
{
	struct descriptor_uses *uses = &process->uses;
	if (descriptor < LOW_DESCRIPTORS) {
		process->apart[descriptor / 64] &= ~(1UL << descriptor % 64);
		process->files[descriptor / 64] &= ~(1UL << descriptor % 64);
		process->asked[descriptor / 64] &= ~(1UL << descriptor % 64);
		process->positions[descriptor / 64] &= ~(1UL << descriptor % 64);
		uses->low[descriptor] = (u8)use;
		return 0;
	}
	u32 i = find_high(uses, descriptor);
	if (!use) {
		if (i < uses->high_count)
			remove_high(uses, i);
		return 0;
	}
	if (i == HIGH_DESCRIPTORS)
		return 1;
	uses->high[i] = (struct high_descriptor){.descriptor = (u32)descriptor, .use = use};
	uses->high_count += i == uses->high_count;
	return 0;
}

/* Sets a descriptor's use, or closes it if it cannot be tracked: its output would be missing at
 * replay. */
static void keep_use(struct call *call, u64 descriptor, u32 use)
{
	if (!set_use(call->context->process, descriptor, use))
		return;
	sys1(NR_close, descriptor);
	if (call->result >= 0 && (u64)call->result == descriptor)
		call->result = -EMFILE;
}

/* The use of a descriptor that does not come from another descriptor of the process: /dev/stdout
 * and passed descriptors may lead to the same output as descriptor 1. Devices other than terminals
 * have no output for the console. */
static u32 console_use(u64 descriptor, const u64 *stat)
{
	u32 terminal = 0, is_device = ((u32)stat[3] & MODE_KIND) == CHARACTER_DEVICE;
	if (is_device && sys3(NR_ioctl, descriptor, TIOCGDEV, &terminal))
		return 0;
	for (u32 i = 0; i < 2; i++) {
		const struct console *console = &HEADER->consoles[i];
		if (is_device ? terminal == console->terminal
			      : !console->terminal && stat[0] == console->device &&
					stat[1] == console->inode)
			return i ? DESCRIPTOR_CONSOLE_ERR : DESCRIPTOR_CONSOLE_OUT;
	}
	return 0;
}

static u32 found_use(u64 descriptor)
{
	u64 stat[18];
	return !logs() || sys2(NR_fstat, descriptor, stat) ? 0 : console_use(descriptor, stat);
}

/* Also handles the rare threads that have descriptors of their own, whose uses are not tracked. */
u32 seldom_descriptor_use(const struct process *process, u64 descriptor)
{
	const struct descriptor_uses *uses = &process->uses;
	u32 i = descriptor < LOW_DESCRIPTORS ? 0 : find_high(uses, descriptor);
	u32 use = descriptor < LOW_DESCRIPTORS ? uses->low[descriptor]
		  : i < uses->high_count       ? uses->high[i].use
					       : 0;
	return process->mixed_descriptors && use != DESCRIPTOR_MEMORY ? found_use(descriptor) : use;
}

/* Parses the number whose last digit is before `end`. Returns where the number begins. */
static const char *number_before(const char *start, const char *end, u64 *number)
{
	u64 weight = 1;
	*number = 0;
	for (; end > start && end[-1] >= '0' && end[-1] <= '9'; weight *= 10)
		*number += (u64)(*--end - '0') * weight;
	return end;
}

/* Returns the process whose memory a file of procfs shows (/proc/PID/mem, /proc/PID/task/TID/mem),
 * or 0 for any other file. */
static u64 memory_of(u64 descriptor, const u64 *stat)
{
	static const char memory[4] = "/mem", task[6] = "/task/";
	char path[128], link[32];
	u64 about[15], number;
	if (((u32)stat[3] & MODE_KIND) != MODE_REGULAR || stat[6] ||
		sys2(NR_fstatfs, descriptor, about) || about[0] != PROC_SUPER_MAGIC)
		return 0;
	i64 length = sys3(NR_readlink, descriptor_link(link, (u32)descriptor), path, sizeof path);
	const char *end = path + length - sizeof memory;
	if (length <= (i64)sizeof memory || memcmp(end, memory, sizeof memory))
		return 0;
	end = number_before(path, end, &number);
	if (end - path > (i64)sizeof task && !memcmp(end - sizeof task, task, sizeof task))
		number_before(path, end - sizeof task, &number);
	return number;
}

static u64 open_flags(const struct call *call)
{
	u64 flags;
	switch (call->number) {
	case NR_open: return call->arguments[1];
	case NR_openat: return call->arguments[2];
	case NR_openat2:
		return copy_user(&flags, (const void *)call->arguments[2], sizeof flags) ? 0
											 : flags;
	case NR_creat:
	case NR_pidfd_getfd: return WRITES;
	}
	return 0;
}

/* Refuses the memory of another process: replay would lack what is written to it. */
static void refuse_memory(struct call *call)
{
	sys1(NR_close, (u64)call->result);
	call->result = -EACCES;
}

static u32 opens_file(u64 number)
{
	return number == NR_open || number == NR_openat || number == NR_openat2 ||
	       number == NR_creat;
}

static void note_opened(struct call *call, u64 flags)
{
	struct context *context = call->context;
	u64 stat[18], descriptor = (u64)call->result;
	u32 use = 0, is_regular = 0;
	if (flags & WRITES && logs() && !sys2(NR_fstat, descriptor, stat)) {
		u64 process = memory_of(descriptor, stat);
		if (process && process != context->pid) {
			refuse_memory(call);
			return;
		}
		if (process)
			/* Even text can be written through it. */
			expect_unknown_calls(context);
		use = process ? DESCRIPTOR_MEMORY : console_use(descriptor, stat);
		is_regular = ((u32)stat[3] & MODE_KIND) == MODE_REGULAR;
	}
	keep_use(call, descriptor, use);
	if (call->number == NR_pidfd_getfd)
		HEADER->descriptors_taken = 1;
	else if (!context->process->domain && opens_file(call->number) &&
		 descriptor < LOW_DESCRIPTORS)
		context->process->positions[descriptor / 64] |= 1UL << descriptor % 64;
	if (is_regular && !(flags & WAITS_FOR_DISK) && descriptor < LOW_DESCRIPTORS)
		context->process->files[descriptor / 64] |= 1UL << descriptor % 64;
}

/* Returns whether calls on the descriptor return at once. If another process or ioctl changes that,
 * the answer is outdated, and time is lost. */
static u32 never_waits(struct process *process, u64 descriptor)
{
	u64 word = descriptor / 64, bit = 1UL << descriptor % 64;
	if (descriptor >= LOW_DESCRIPTORS)
		return 0;
	if (!(process->asked[word] & bit)) {
		i64 flags = status_flags(descriptor);
		process->asked[word] |= bit;
		process->ready[word] &= ~bit;
		if (flags >= 0 && flags & O_NONBLOCK)
			process->ready[word] |= bit;
	}
	return (process->ready[word] & bit) != 0;
}

/* Returns whether the next call returns soon enough to lend the baton. On different cores another
 * thread can compute while the kernel works; only on one core does giving up the baton gain
 * nothing. */
u32 descriptor_is_soon_back(struct context *context)
{
	const struct registers *regs = &context->regs;
	struct process *process = context->process;
	u64 number = (u32)regs->rax, descriptor = regs->rdi;
	if (number == NR_write && descriptor < LOW_DESCRIPTORS &&
		process->files[descriptor / 64] >> descriptor % 64 & 1)
		return 1;
	if (!process->domain->home || number >= 64 || !(SENDS_OR_RECEIVES >> number & 1))
		return 0;
	u64 flags = number == NR_sendto || number == NR_recvfrom   ? regs->r10
		    : number == NR_sendmsg || number == NR_recvmsg ? regs->rdx
								   : 0;
	return flags & MSG_DONTWAIT || never_waits(process, descriptor);
}

static void find_received(struct call *call, u64 message)
{
	u64 control[2], header[2];
	if (copy_user(control, (const void *)(message + 32), sizeof control))
		return;
	u64 at = control[0], end = control[0] + control[1];
	while (at + sizeof header <= end && !copy_user(header, (const void *)at, sizeof header) &&
		header[0] >= sizeof header && header[0] <= end - at) {
		u32 descriptor;
		for (u64 i = sizeof header; header[1] == (SOL_SOCKET | (u64)SCM_RIGHTS << 32) &&
					    i + sizeof descriptor <= header[0];
			i += sizeof descriptor)
			if (!copy_user(&descriptor, (const void *)(at + i), sizeof descriptor))
				keep_use(call, descriptor, found_use(descriptor));
		at += ALIGN8(header[0]);
	}
}

static void close_all(struct process *process, u64 first, u64 last)
{
	struct descriptor_uses *uses = &process->uses;
	for (u64 i = first; i <= last && i < LOW_DESCRIPTORS; i++)
		set_use(process, i, 0);
	for (u32 i = uses->high_count; i-- > 0;)
		if (uses->high[i].descriptor >= first && uses->high[i].descriptor <= last)
			remove_high(uses, i);
}

void descriptors_inherit(struct process *process, const struct descriptor_uses *before)
{
	process->uses = *before;
	struct descriptor_uses *uses = &process->uses;
	for (u32 i = 0; i < LOW_DESCRIPTORS; i++)
		if (uses->low[i] && sys3(NR_fcntl, i, 1 /* F_GETFD */, 0) < 0)
			uses->low[i] = 0;
	for (u32 i = uses->high_count; i-- > 0;)
		if (sys3(NR_fcntl, uses->high[i].descriptor, 1 /* F_GETFD */, 0) < 0)
			remove_high(uses, i);
}

/* Returns whether a file is only opened for reading, and is not one that may have to be filtered.
 */
static u32 opens_to_read(u64 path, u64 flags)
{
	char start[6];
	return !(flags & WRITES) && !copy_user(start, (const void *)path, sizeof start) &&
	       memcmp(start, "/proc/", sizeof start) != 0;
}

u32 descriptors_stay_known(const struct context *context)
{
	const struct registers *regs = &context->regs;
	switch ((u32)regs->rax) {
	case NR_close: return !descriptor_use(context->process, (u32)regs->rdi);
	case NR_open: return opens_to_read(regs->rdi, regs->rsi);
	case NR_openat: return opens_to_read(regs->rsi, regs->rdx);
	default: return 0;
	}
}

void descriptors_after(struct call *call)
{
	struct process *process = call->context->process;
	const u64 *arguments = call->arguments;
	if (call->number == NR_fcntl && arguments[1] == F_SETFL)
		/* Other descriptors may lead to the same file. */
		memset(process->asked, 0, sizeof process->asked);
	u32 owned;
	/* A close that fails to write pending data also closes. */
	u32 is_close = call->row->descriptor_effect == DESCRIPTORS_CLOSES;
	if (call->result < 0 && !is_close)
		return;
	switch (call->row->descriptor_effect) {
	case DESCRIPTORS_MAKES:
		note_opened(call, open_flags(call));
		if (call->number == NR_open || call->number == NR_openat)
			filter_open(call);
		break;
	case DESCRIPTORS_CLOSES: set_use(process, arguments[0], 0); break;
	case DESCRIPTORS_CLOSES_RANGE:
		if (arguments[2] & 2 /* CLOSE_RANGE_UNSHARE */)
			process->mixed_descriptors = 1;
		if (!(arguments[2] & 4)) /* CLOSE_RANGE_CLOEXEC */
			close_all(process, arguments[0], arguments[1]);
		break;
	case DESCRIPTORS_DUPS:
	case DESCRIPTORS_DUPS_ONTO:
		owned = owns_position(process, arguments[0]);
		keep_use(call, (u64)call->result, descriptor_use(process, arguments[0]));
		if (owned && (u64)call->result < LOW_DESCRIPTORS)
			process->positions[call->result / 64] |= 1UL << call->result % 64;
		break;
	case DESCRIPTORS_RECEIVES:
		for (u64 i = 0; i < (call->number == NR_recvmmsg ? (u64)call->result : 1); i++)
			find_received(call, arguments[1] + i * 64 /* of a struct mmsghdr */);
		break;
	}
}
