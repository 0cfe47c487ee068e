/* What threads of a process have in common, and what every file asks of a thread. */
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
/* A library whose stubs have their place. */
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

#define REFERRED_FILES 4u

/* Replay: a stored file that is open, by a process of this mark; 0: none. */
struct referred {
	u64 mark;
	u8 content[32];
	u32 descriptor;
};

struct packet_ring {
	u32 is_used, descriptor, version;
	u32 block_bytes, blocks, frame_bytes, frames_per_block;
	u32 next;  /* the part that was not looked at, for lack of room */
	u64 shown; /* where the program has it; 0: it is not mapped */
};

/* Record, sync policy: the last thread of a process that ended. */
struct ended {
	u32 stream; /* + 1; 0: nobody, or it is being written */
	u32 count;
	u64 operations; /* one more than it made */
};

struct process {
	/* NULL: one thread, no memory shared with others. At replay each thread's context says
	 * where it is. */
	struct domain *domain;
	struct domain private_domain;
	struct ended ended;
	/* Record: of the thread that took the private domain's baton last. */
	struct context *holder;
	u32 thread_count;
	u32 progress_mapped; /* replay, sync policy: there is room for `struct progress` */
	u32 had_threads;     /* this process, or one that it is a copy of */
	/* Replay: a thread has ended the process; the last of the others does it. with
	 * ending_status. */
	u32 ending;
	u32 ending_status; /* wait status */
	/* Record: stream + 1 of the thread that is ending all others: those get no turn any more.
	 */

	u32 alone;
	u32 lock; /* trace: see process_lock */
	/* Record: more than there is room for: not all are known. Of the first process in this
	 * memory. */
	u32 shared_range_count;
	/* Record: where memory is, or was, that other processes may have too. */
	struct address_range shared_ranges[MAX_SHARED_RANGES];
	u32 stored_count; /* record: files that the supervisor stored for it */
	/* Record: there is code that may call the kernel where nothing is patched. */
	u32 unknown_calls;
	/* Record: there is code that does not tell by what its threads synchronise: the place of a
	 * file in the header, plus 1; ~0: it was made at run time. */
	u32 untold;
	/* Record: nobody knows how often a handler may return. */
	u32 frames_kept;
	struct signal_action actions[65];
	/* Record: what the program believes of RLIMIT_AS. */
	struct address_limits address_limits;
	/* Record: what the runtime mapped besides what every process has. Of the first process in
	 * this memory. */
	u64 own_bytes;
	u64 break_start, break_end; /* replay: the emulated program break */
	u32 region_count;	    /* regions ever handed out */
	u32 region_free;	    /* the first that is free, plus 1 */
	u8 pools[MAX_POOLS / 8];    /* record: which pools are attached here */
	struct descriptor_uses uses;
	/* Record: descriptors of regular files whose writes do not wait for the disk, */
	u64 files[LOW_DESCRIPTORS / 64];
	/* Those for which the kernel was asked whether calls wait, */
	u64 asked[LOW_DESCRIPTORS / 64];
	u64 ready[LOW_DESCRIPTORS / 64]; /* and those whose calls do not: O_NONBLOCK */
	/* Record: descriptors whose files are none of the header's shared files, */
	u64 apart[LOW_DESCRIPTORS / 64];
	u32 apart_among; /* when those were so many */
	/* Record: descriptors whose position nobody else moves: the process opened them, and has
	 * not passed them on. */
	u64 positions[LOW_DESCRIPTORS / 64];
	u32 without_leases; /* record: the supervisor cannot look at its files */
	/* Record: calls that closed or replaced a descriptor, while there were threads. */
	u64 closings_begun, closings_ended;
	/* Record: threads that have printed, or are about to, and have not logged it. */
	u32 printing;
	u32 closing; /* Record: one ends the process, when those have logged it. */
	/* Record: its threads, or another process and it, may have more or fewer descriptors in
	 * common than is usual. */
	u32 mixed_descriptors;
	/* Record: rings of packets, and how many of them the program has mapped. */
	struct packet_ring packet_rings[MAX_PACKET_RINGS];
	u32 packet_rings_shown;
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
	u32 children_count; /* replay: those that its parent may wait for */
	struct child children[MAX_CHILDREN];
	u64 vdso_start, vdso_end;
	/* Record: which of the images asked for has been taken, or is not to be. */
	u32 images_seen;
	u32 hides_memory; /* record: a copy of it would lack memory */
	u32 first_status; /* with which its first thread ended, before others */
	u32 first_waits;  /* replay: the thread that is first here waits for the others to end */
	/* Record: where the program began: the stream, and events of it before. */
	u32 program_stream;
	u64 program_events;
	u32 is_placed; /* record: it has said itself where its threads are to run */
	u32 counter_compared;
	/* Record: ticks of the time-stamp counter beyond what the kernel's clock makes of them. */
	u64 counter_ahead;
	u64 clocks;	      /* record: where the vDSO is as long as we can call it; 0: not */
	u32 first_stub_count; /* of the program and of its interpreter */
	struct address_range first_stubs[2];
	/* Trace, or replay for one: mapped files whose pages are of interest; MAX_LOOKED + 1: more
	 * than that. */
	u32 looked_count;
	struct address_range looked[MAX_LOOKED];
	/* Record: text that is not executable although the program thinks so. */
	u32 hidden_count;
	struct address_range hidden[MAX_HIDDEN];
};
/* In `counter_traps`: exec keeps what the program before had. */
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
/* What says in a lock that the thread has it. */
static inline u32 as_holder(const struct context *context) { return context->slot->stream + 1; }
static inline u32 slots_used(void)
{
	u32 used = __atomic_load_n(&HEADER->slots_used, __ATOMIC_ACQUIRE);
	return used < HEADER->slot_limit ? used : HEADER->slot_limit;
}
/* A thread that lives, of this process; another one than this. */
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
