/* What the runtime and the supervisor share: addresses, the header segment, slots, requests.
 * crates/kernel/src/shared.rs mirrors this file; a test compiles both and compares every offset. */
#ifndef RETAKE_SHARED_H
#define RETAKE_SHARED_H
#include "types.h"

#define RUNTIME_TEXT 0x550000000000UL    /* code and constants, shared, read-only */
#define RUNTIME_DATA 0x550010000000UL    /* struct process, private */
#define HEADER_ADDRESS 0x550020000000UL  /* struct shared_header */
#define REGIONS 0x550040000000UL         /* one region per thread of the process */
#define REGION_STRIDE 0x800000UL
#define REGION_CONTEXT 0x10000UL         /* offsets within a region */
#define REGION_STACK_LOW 0x20000UL
#define REGION_STACK_TOP 0x40000UL
#define REGION_ALTERNATE 0x50000UL       /* the kernel's signal stack for the master handler */
#define REGION_ALTERNATE_TOP 0x60000UL
#define REGION_RING 0x100000UL           /* the ring, twice in a row; at replay the log window */
#define RUNTIME_END 0x555000000000UL

#define RING_BYTES 0x100000UL
#define MAX_SLOTS 4096
#define MAX_FILES 0x4000
#define FILE_BUCKETS 0x400
#define MAX_SHARED_FILES 0x10000
#define SHARED_FILE_BUCKETS 0x1000
#define MAX_PARTS 8 /* of one file */
#define MAX_UNREACHED 4 /* ranges of one file */
#define MAX_CPUID 256
#define LOW_DESCRIPTORS 256
#define HIGH_DESCRIPTORS 16

#define MAX_FILTERS 4096
#define MAX_FILTER_STEPS 0x20000u
#define FILTER_STRICT (~0u)

enum { MODE_RECORD = 1, MODE_REPLAY = 2, MODE_TRACE = 3 /* as record, but nothing is ordered or repeated: calls are logged whole, with times */ };
enum { OPTION_NO_FAST_PATH = 1, OPTION_QUIET = 2, OPTION_CHECK_FULL = 4, OPTION_CHECK_OFF = 8, OPTION_NO_TSC_TRAP = 16, OPTION_NO_CPUID_FAULT = 32, OPTION_WHOLE_INPUTS = 64 /* replay: hand over the inputs that the recording has only in part */,
	OPTION_DEBUG = 128 /* replay: a debugger wants one process of the tree */, OPTION_DROPPED = 256 /* replay: processes are missing from the recording */,
	OPTION_ALONE = 512 /* replay: what the program maps shared, nobody else sees */,
	OPTION_MOVED_DATA = 1024 /* record: keep what calls move between descriptors */,
	OPTION_SYNC = 2048 /* only sections are in order: see section.c */ };

enum slot_state { SLOT_UNUSED, SLOT_READY, SLOT_CLAIMED, SLOT_LIVE, SLOT_EXITED, SLOT_DYING /* its process ended; wait until the thread is gone */ };
/* Who may do what about stopping a thread between sync points; see docs/FORCED.md. */
enum force_state { FORCE_IDLE, FORCE_WANTED, FORCE_SENDING, FORCE_SENT, FORCE_ACTIVE, FORCE_CLOSED };
/* Record: why replay of other processes needs what a process did, besides being their parent. */
enum ties { TIE_MEMORY = 1 /* it shared writable memory */, TIE_FILE = 2 /* it wrote to a file that is mapped */, TIE_PARENT = 4 /* it began in its parent's memory */ };
enum baton_state {
	BATON_NONE,
	BATON_WAITING,
	BATON_HOLDING,
	BATON_STOPPED, /* record: waits too, but it was computing when it was stopped */
	BATON_SIGNALLED, /* record: waits too, and a signal waits for it */
};

/* Replay: where those wait whose turns have the same number modulo TURN_GATES. */
#define TURN_GATES 128
struct turn_gate {
	u32 word;    /* changes when such a turn comes; futex */
	u32 waiters; /* and some that died waiting */
};

#define LENT 0x80000000U /* in a domain's lock */

/* The right to run user code among threads that share writable memory. */
struct domain {
	u32 lock;         /* record: stream + 1 of the holder, and LENT where a call of that one does not need it; 0 when free; futex */
	u32 waiters;
	u32 wake_pending; /* a waiter was woken and has not looked yet */
	u32 last;         /* stream + 1 of the last holder */
	u64 turn;         /* record: changes of holder so far */
	u64 completed;    /* replay: turns that are over */
	u32 identity;     /* tells domains apart: the process that made it, ~0 the one of processes that share memory */
	u32 merged;       /* record: it is over, its threads belong to the domain of processes that share memory */
	u32 core;         /* record: where the last holder was when it became that */
	u32 home;         /* core + 1 on which its threads run; 0: on any */
	u64 looked_ns;    /* when that was last thought about, */
	u64 round_ns;     /* and when the kernel could last choose */
	u32 expected;     /* record: callers have credit, and the last holder is expected back from its call; another number each time */
	u32 callers;      /* record: of those that wait, how many came from a call */
	u64 credit_until_ns; /* record: until when callers have it; 0: they have none */
	u64 stopped_turn; /* record: of the thread that was stopped last */
	u64 late_ns;      /* record: when one that was expected had not come back in time */
	u64 lent;         /* record: how often, in the turn that is */
	struct turn_gate gates[TURN_GATES];
} __attribute__((aligned(64)));

/* How a recording is disturbed, so that rare interleavings show up. Seed 0: not at all. "One in 0" means never. */
struct chaos {
	u64 seed;
	u32 yield_one_in; /* of the system calls, before and after each */
	u32 step_one_in;  /* of the system calls: the thread is stopped a few instructions later */
	u32 delay_one_in; /* of the times that a thread wants the baton */
	u32 delay_most_us;
};

enum request_kind {
	REQUEST_NONE,
	REQUEST_EXEC,        /* attach to me: I am about to exec. record only */
	REQUEST_EXEC_FAILED, /* never queued: the exec agent sees it in the slot */
	REQUEST_FILE,        /* arguments: descriptor; reply: index in files, or -1 */
	REQUEST_WINDOW,      /* replay: give me the next part of my stream; reply: segment id */
	REQUEST_DIVERGED,    /* replay: stop everything and report */
	REQUEST_OWN_RING,    /* argument: user; the ring becomes that user's. record only */
	REQUEST_SHARED_FILE, /* replay: prepare the scratch copy of a shared file. reply: 0, or SHARED_FILE_UNCHANGED */
	REQUEST_FORCE,       /* record: what a traced piece of code writes. arguments: trace, steps, force_answer, thread base, whether only a thread that spins shall be answered. reply: 0 */
	REQUEST_WATCH,       /* replay: how to stop at an address. arguments: address, watch_answer. reply: 0 */
	REQUEST_INPUT,       /* replay: an input of the call to come. arguments: address, bytes. reply: 0 */
	REQUEST_DEBUG,       /* replay: I am about to begin or to go on with a new program. argument: events so far. Answered once a debugger has me, if it wants me */
	REQUEST_CHILD,       /* replay: argument: a stream. reply: whether its process shall be made at all */
	REQUEST_CONSOLE,     /* replay: argument: a number on the console that nobody prints. reply: the next that somebody does */
	REQUEST_LOOK,        /* trace: look at me. arguments: LOOK_*, result, time. reply: bytes seen in the source of data about to be moved, or 0.
	                        replay, if inputs are handed over: arguments: LOOK_*, 0, events before what comes now. reply: 0 */
	REQUEST_IDENTITY,    /* record: the supervisor shall find out the numbers of a thread in another PID namespace, and put them in the slot */
};

struct image_part { /* patched pages of a text, or the stubs of a file */
	u64 text_offset, text_bytes; /* in the file: the mapping that shows that text */
	u64 offset;  /* in that mapping */
	u64 address; /* link-time, page aligned */
	u64 bytes;
	i32 segment_id;
	u32 reserved;
	u8 content[32];
};

/* What calls the text of a file can make. */
enum file_calls {
	CALLS_UNKNOWN, /* some are not patched: only dispatch sees them */
	CALLS_PATCHED, /* all are, where the image lies over the text */
	CALLS_NONE,
};

struct address_range { u64 start, end; };
static inline u32 overlaps(const struct address_range *range, u64 start, u64 end) { return start < range->end && range->start < end; }

struct file_entry { /* one file the tree mapped, by identity */
	u32 part_count;
	u32 calls; /* enum file_calls */
	u32 followed; /* record: it was mapped so that replay makes a copy of it, on which changes are repeated */
	u32 used;     /* the tree mapped it; others were only expected to be */
	u32 next;     /* in its bucket: place in files, plus 1 */
	u32 reserved;
	u64 device, inode, size, modified_ns, changed_ns; /* as in struct file_identity */
	u8 content[32];
	u64 low, high; /* span of its segments, link-time */
	struct image_part parts[MAX_PARTS];
	struct image_part stubs;
	struct address_range unreached[MAX_UNREACHED]; /* pages of text, link-time, that no known code reaches, but that may hold a call: see unreached.c */
};

struct filter { /* a seccomp filter of the program's */
	u32 ready;      /* written last */
	u32 before;     /* place of the one installed before it, plus 1 */
	u32 first_step; /* in filter_steps */
	u32 step_count;
};

/* What descriptors of a process are, of which more is to be known: DESCRIPTOR_*. */
struct descriptor_uses {
	u8 low[LOW_DESCRIPTORS];
	u32 high_count;
	struct high_descriptor {
		u32 descriptor, use;
	} high[HIGH_DESCRIPTORS]; /* any others */
};

/* Whether somebody waits for a slot, and whether the supervisor can make none. */
enum ready { READY_ENOUGH, READY_WANTED, READY_NONE };

struct slot {
	u32 state;
	u32 next_ready;
	i32 ring_id;
	u32 stream;
	u32 parent_stream;
	u32 pid;
	u32 tid;
	u32 exec_pending; /* set while the thread waits for an attach or stands before its exec */
	u32 force_state;    /* record: enum force_state */
	u32 force_sequence; /* record: signals put off so far */
	u32 priority;       /* record: under chaos, of those that wait for a baton the highest goes first */
	u32 baton_domain;   /* record: identity of the domain whose baton it waits for, under chaos; else of that with which it is bound to a core */
	u32 ties;           /* record: enum ties */
	u32 pid_space;          /* record: the PID namespace of the thread; 0: the supervisor's. In others numbers mean other processes */
	u32 pid_space_children; /* record: that of its children to come */
	u32 inner_tid;          /* record: its number in its own namespace */
	u64 head __attribute__((aligned(64))); /* bytes produced, by the runtime */
	u32 kicked;                            /* the drain was already told that this ring fills */
	u32 filter;                            /* the thread's latest seccomp filter, plus 1; 0: none; or FILTER_STRICT */
	u64 tail __attribute__((aligned(64))); /* bytes consumed, by the supervisor */
	u32 tail_futex;                        /* changes when tail moved while somebody waited */
	u32 tail_waiting;
	u32 request __attribute__((aligned(64)));
	u32 reply;                             /* futex: 0 pending, 1 answered */
	u64 request_arguments[6];
	i64 reply_values[2];
	struct descriptor_uses uses;           /* carried over exec */
	u64 altered_mask;                      /* carried over exec: the program's signal mask */
	u64 ignored_signals;                   /* carried over exec: what the program ignores */
	u32 recorded_pid, recorded_tid;        /* replay: as the program knows them */
	u64 event_count;
	u64 slow_calls;                        /* calls that came through dispatch */
	u64 next_window_offset;                /* replay: where in the stream the next window starts */
	u32 console_waiting;                   /* replay: waits for its turn to print, or for a process that may */
	u32 baton_state;                       /* enum baton_state, for the supervisor's clock */
	u64 console_ticket;                    /* its number; the highest for another process */
	u64 turn, turn_logged;                 /* record: the last turn taken, and the last one whose event is in the stream */
	u64 turn_sections;                     /* record, sync policy: sections that ended in that turn */
	u64 started_ns, ended_ns;              /* record: when the thread's stream began and ended, on the monotonic clock */
	u32 home;                              /* core + 1 on which alone it runs; 0: it runs where it may, */
	u32 core_count;                        /* on so many, once this is not 0: */
	u64 cores[16];                         /* a bit for each */
	u64 baton_waits, baton_wait_ns;        /* record: how often and how long it waited for the baton */
	u32 slice_us;                          /* record: how long it may compute while others wait; 0: as long as a new thread. The supervisor's */
	u32 stop_us;                           /* record: how long it took to stop it the last time */
	u32 kept;                              /* record: sync points at which it was to give the baton up, but had credit */
	u64 forced_found, forced_misses;       /* replay: places found again, and visits that were not yet it */
	u64 forced_search_ns;                  /* replay: time until they were found */
	u64 call_entered_ns;                   /* trace: when the call was entered in which the thread is; 0: in none */
	u64 call_number;
	u64 call_arguments[6];
	/* divergence report */
	u64 diverged_event;
	u64 diverged_offset;
	u64 diverged_why;
	u64 diverged_number;
	u64 diverged_arguments[6];
	u64 diverged_registers[18];
	u64 diverged_expected;
	u64 diverged_actual;
};

struct cpuid_entry {
	u32 leaf, subleaf, eax, ebx, ecx, edx;
};

struct vdso_patch {
	u32 offset;
	u32 bytes;
	u8 code[48];
};

#define VDSO_CLOCKS 4
struct vdso_clock { /* what the vDSO's own code answers if it is called there */
	u32 number; /* of the system call; 0: no more of them */
	u32 offset;
};

/* Where lists of what belongs to a file begin. */
static inline u32 file_bucket(u64 inode, u32 bucket_count) { return (u32)(inode % bucket_count); }

#define SHARED_FILE_UNCHANGED 1 /* there is none: the stored file will do */
struct shared_file {
	u64 device, inode; /* as in struct file_identity */
	u32 changes;       /* record: it was mapped so that it can be written to, or a call wrote to it */
	u32 next;          /* in its bucket: place in shared_files, plus 1 */
};

/* One of the original outputs, by identity. */
struct console {
	u64 device, inode; /* as fstat has them */
	u32 terminal;      /* its device number; 0: it is none */
	u32 reserved;
};

struct shared_header {
	u64 magic;
	u32 mode;
	u32 options;
	i32 supervisor_pid;
	i32 guardian_pid;
	u32 drain_doorbell;   /* futex */
	u32 drain_sleeping;
	u32 request_doorbell; /* futex; also the producer position of request_queue */
	u32 request_taken;
	u64 ready_top;        /* slot index + 1 in the low half, change counter in the high half */
	u32 ready_futex;
	u32 ready_low;        /* enum ready */
	u32 next_stream;
	u32 slots_used;       /* slots [0, slots_used) have ever been ready */
	u64 console_sequence; /* record: next number to give */
	u64 console_printed;  /* replay: next number to print */
	u32 console_futex;
	u32 file_count;
	u32 cpuid_count;
	u32 vdso_patch_count;
	u32 vdso_bytes;
	u32 force_doorbell;   /* record: futex: a thread shall be stopped soon */
	u64 extended_features; /* XCR0: what signal frames save */
	u32 extended_bytes;
	u32 stopping;         /* replay: everything shall end */
	u64 ticks_per_second; /* of the time-stamp counter */
	struct chaos chaos;   /* record */
	i32 header_id;        /* of this segment */
	i32 host_descriptor;  /* replay: the executable that replayed processes exec */
	u32 yield_tick;       /* record: the supervisor's clock: changes when somebody has waited long for a baton */
	u32 dying;            /* record: slots are in SLOT_DYING */
	u32 console_lock;     /* record: stream + 1 of the thread that writes to the console */
	u32 shared_file_count; /* changes when one was entered */
	u64 clock_counter;    /* trace: time-stamp counter at clock_ns; 0: the kernel's clock serves */
	u64 clock_ns;         /* trace: nanoseconds since 1970 */
	u64 clock_scale;      /* trace: nanoseconds of a tick, with 32 bits behind the point */
	u64 data_limit;       /* trace: bytes kept of each buffer */
	u64 console_gap;      /* replay: the next number on the console that is of a dropped process */
	struct console consoles[2]; /* record: standard output, standard error */
	struct domain shared_domain; /* of all processes that share writable memory with others */
	struct cpuid_entry cpuid[MAX_CPUID];
	struct vdso_patch vdso_patches[16];
	struct vdso_clock vdso_clocks[VDSO_CLOCKS]; /* record */
	u32 request_queue[MAX_SLOTS];
	char store[1024];     /* replay: folder of the recording's files, ends with '/' */
	char scratch[1024];   /* replay: folder for copies of shared files, ends with '/' */
	struct file_entry files[MAX_FILES];
	struct slot slots[MAX_SLOTS];
	u32 is_on_one_core;   /* replay: a debugger has bound everything to it */
	u32 homes_watched;    /* record: who is bound to a core is moved when others compute there, so that */
	u32 crowded_domain, roomy_home, crowded_home; /* the domain of this identity, if it is on this core, goes to that one. Cores plus 1; the last is written last */
	u32 shared_file_places; /* given away; if there are more than exist, all files are taken for such */
	u32 filter_count, filter_step_count; /* places given away; may exceed what there is */
	struct filter filters[MAX_FILTERS];
	u64 turn_patience_ns; /* replay, sync policy: nobody waits longer for a turn; 0: for ever */
	u64 filter_steps[MAX_FILTER_STEPS];
	u32 file_buckets[FILE_BUCKETS]; /* the file entered last: place in files, plus 1 */
	u32 shared_file_buckets[SHARED_FILE_BUCKETS];
	struct shared_file shared_files[MAX_SHARED_FILES]; /* of which the mappings may see writes */
};

#define HEADER ((struct shared_header *)HEADER_ADDRESS)
#define HEADER_MAGIC 0x31656b6174657221UL

#endif
