/* What the threads of a process share, and what every file asks about a thread. */
#ifndef RETAKE_BASE_STATE_H
#define RETAKE_BASE_STATE_H
#include "base/capabilities.h"
#include "base/shared.h"
#include "contract/context.h"

/* The kernel's layout for rt_sigaction. */
struct signal_action {
	u64 handler, flags, restorer, mask;
};
#define MAX_RESERVATIONS 512
/* A library whose stubs have their addresses reserved. */
struct reservation {
	u64 base;
	u32 file;
	u32 stubs_attached;
};
#define MAX_SHARED_RANGES 64
#define MAX_LOOKED 32u
#define MAX_HIDDEN 32u
#define MAX_CHILDREN 128
struct child {
	u32 recorded, real;
};
#define UNCHANGED_FILES 16
#define MAX_PACKET_RINGS 8u
#define MAX_KEPT_BACK 256u

#define REFERRED_FILES 4u

/* Replay: an open stored file. `mark` names the process that opened it; 0: the entry is free. */
struct referred {
	u64 mark;
	u8 content[32];
	u32 descriptor;
};

/* Memory that the program keeps from its children, by this advice. */
struct kept_back {
	struct address_range at;
	u32 advice;
};

struct packet_ring {
	u32 is_used, descriptor, version;
	u32 block_bytes, blocks, frame_bytes, frames_per_block;
	/* The block or frame where the next look begins. */
	u32 next;
	/* The address where the program has mapped the ring; 0: it is not mapped. */
	u64 shown;
};

/* Record, sync policy: the last thread of a process that ended. */
struct ended {
	/* The stream plus 1; 0: none, or another thread is writing this. */
	u32 stream;
	u32 count;
	/* One more than the operations that the thread made. */
	u64 operations;
};

struct process {
	/* NULL: one thread, no memory shared with others. At replay each thread's context has its
	 * own pointer. */
	struct domain *domain;
	struct seen seen;
	struct domain private_domain;
	struct ended ended;
	/* Record: the thread that took the private domain's baton last. */
	struct context *holder;
	/* Record: the last turn of a thread that only spun, and how often in a row threads only
	 * spun. */
	u64 vain_turn, vain_looks;
	u32 thread_count;
	/* Replay, sync policy: memory for `struct progress` is mapped. */
	u32 progress_mapped;
	/* This process, or one that it is a copy of, had several threads. */
	u32 had_threads;
	/* Replay: a thread has ended the process. The last of the other threads carries it out,
	 * with ending_status. */
	u32 ending;
	/* A wait status. */
	u32 ending_status;
	/* Sync policy: the slot of the function that a thread began to bind last, the thread, and a
	 * lock for both. */
	struct lazy_slot binding;
	u32 binder, binding_lock;
	/* Sync policy: what nobody reads may differ between recording and replay. The process is a
	 * copy, made while other threads ran; or threads of a settled replay may have bound
	 * functions in another order. */
	u32 memory_may_differ;
	/* Replay: a thread has ended without an exit. The process ends with its last thread, with
	 * cut_status. */
	u32 is_cut, cut_status;
	/* Replay: the recording was cut off before the process or its program ended. */
	u32 is_cut_short;
	/* Trace: see process_lock. */
	u32 lock;
	/* Record: the number of ranges; MAX_SHARED_RANGES + 1: some are unknown, for lack of room.
	 * Kept in the first process of this memory. */
	u32 shared_range_count;
	/* Record: memory that other processes have, had, or may have, too. */
	struct address_range shared_ranges[MAX_SHARED_RANGES];
	/* Record: how many files the supervisor stored for this process. */
	u32 stored_count;
	/* Record: some code may call the kernel from unpatched places. */
	u32 unknown_calls;
	/* Record: some code does not tell how its threads synchronise. The place of its file in the
	 * header, plus 1; ~0: the code was made at run time. */
	u32 untold;
	/* Record: the number of returns of a handler is unknown. */
	u32 frames_kept;
	struct signal_action actions[65];
	/* Record: the RLIMIT_AS that the program sees. */
	struct address_limits address_limits;
	/* Record: bytes that the runtime mapped besides what every process has. Kept in the first
	 * process of this memory. */
	u64 own_bytes;
	/* Replay: the emulated program break. Record: its end, 0 before the first brk. */
	u64 break_start, break_end;
	/* The number of regions ever handed out. */
	u32 region_count;
	/* The first free region, plus 1. */
	u32 region_free;
	/* Record: the pools that are attached here. */
	u8 pools[MAX_POOLS / 8];
	struct descriptor_uses uses;
	/* Record: descriptors of regular files whose writes do not wait for the disk. */
	u64 files[LOW_DESCRIPTORS / 64];
	/* Record: descriptors for which the runtime has asked the kernel whether calls wait. */
	u64 asked[LOW_DESCRIPTORS / 64];
	/* Record: descriptors whose calls do not wait: O_NONBLOCK. */
	u64 ready[LOW_DESCRIPTORS / 64];
	/* Record: descriptors whose files are not among the header's shared files. */
	u64 apart[LOW_DESCRIPTORS / 64];
	/* Record: the number of shared files for which `apart` holds. */
	u32 apart_among;
	/* Record: descriptors whose file position no other process moves: this process opened them
	 * and has not passed them on. */
	u64 positions[LOW_DESCRIPTORS / 64];
	/* Record: the supervisor cannot look at the files of this process. */
	u32 without_leases;
	/* Record: calls that closed or replaced a descriptor while the process had several threads.
	 */
	u64 closings_begun, closings_ended;
	/* Record: threads that have printed, or are about to, and have not logged it. */
	u32 printing;
	/* Record: the threads of this process may not share all descriptors, or another process may
	 * share them. */
	u32 mixed_descriptors;
	/* Record: rings of packets. */
	struct packet_ring packet_rings[MAX_PACKET_RINGS];
	u32 reservation_count;
	struct reservation reservations[MAX_RESERVATIONS];
	u32 unchanged_next;
	/* Replay: files that nothing in the recording changes, as the supervisor said. */
	struct {
		u64 device, inode;
	} unchanged[UNCHANGED_FILES];
	/* Replay: stored files that are open. */
	struct referred referred[REFERRED_FILES];
	u32 referred_next;
	/* Replay: the children that this process may wait for. */
	u32 children_count;
	struct child children[MAX_CHILDREN];
	u64 vdso_start, vdso_end;
	/* Record: the number of the last requested image that was taken or skipped. */
	u32 images_seen;
	/* Record: how much memory children do not get as it is (`kept_back`). */
	u32 kept_back_count;
	/* The exit status of the first thread, which ended before others. */
	u32 first_status;
	/* Replay: the first thread of the process waits for the others to end. */
	u32 first_waits;
	/* Record: the program has chosen the cores of its threads itself. */
	u32 is_placed;
	u32 counter_compared;
	/* Record: the ticks that the time-stamp counter is ahead of the kernel's clock. */
	u64 counter_ahead;
	/* Record: the address of the vDSO while the runtime can call it; else 0. */
	u64 clocks;
	/* The stubs of the program and of its interpreter. */
	u32 first_stub_count;
	struct address_range first_stubs[2];
	/* Trace, or replay for a trace: mapped files whose pages are of interest; MAX_LOOKED + 1:
	 * there are more. */
	u32 looked_count;
	struct address_range looked[MAX_LOOKED];
	/* Record: text that the program believes to be executable, but is not. */
	u32 hidden_count;
	struct address_range hidden[MAX_HIDDEN];
	struct kept_back kept_back[MAX_KEPT_BACK];
	/* Record: how long the last scan of memory took, and when the next is allowed. */
	u64 scan_ns, scan_allowed_ns;
};
_Static_assert(__builtin_offsetof(struct process, domain) == PROCESS_DOMAIN &&
		       __builtin_offsetof(struct process, seen) == PROCESS_SEEN,
	"the supervisor finds them there");
/* A value of `counter_traps`: exec keeps the setting of the program before. */
#define COUNTER_UNKNOWN 2u
#define PROCESS_INITIAL ((struct process *)RUNTIME_DATA)
static inline struct context *context_self(void)
{
	struct context *context;
	__asm__("mov %%gs:%c1, %0" : "=r"(context) : "i"(__builtin_offsetof(struct context, self)));
	return context;
}

/* The first process of a PID namespace is not ended by signals without handlers. */
static inline u32 is_spared(const struct context *context)
{
	return executes() && context->slot->pid_space.own && context->pid == 1;
}
static inline u64 region_address(u32 region) { return REGIONS + region * REGION_STRIDE; }
static inline struct context *context_of(u32 region)
{
	return (struct context *)(region_address(region) + REGION_CONTEXT);
}
/* The value that marks this thread as the holder of a lock. */
static inline u32 as_holder(const struct context *context) { return context->slot->stream + 1; }
static inline u32 slots_used(void)
{
	u32 used = __atomic_load_n(&HEADER->slots_used, __ATOMIC_ACQUIRE);
	return used < HEADER->slot_limit ? used : HEADER->slot_limit;
}
/* Returns whether a slot belongs to a live thread of this process. `is_sibling` excludes the thread
 * itself. */
static inline u32 is_of_process(const struct context *context, const struct slot *slot)
{
	return slot->pid == context->slot->pid &&
	       __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) == SLOT_LIVE;
}
static inline u32 is_sibling(const struct context *context, const struct slot *slot)
{
	return slot != context->slot && is_of_process(context, slot);
}

#endif
