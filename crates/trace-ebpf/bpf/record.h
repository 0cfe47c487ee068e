/* Records, and the rings through which they go to user space. `src/record.rs` reads them.
 *
 * Each processor has a ring. Programs at trace points run with preemption off, so each ring has one
 * writer at a time and needs no lock. A record is contiguous: the ring is followed by room for the
 * longest one. A record counts once `head` is past it. */
#ifndef RETAKE_BPF_RECORD_H
#define RETAKE_BPF_RECORD_H

#include "kernel.h"

#ifndef RING_BITS
#error "RING_BITS: the size of a ring, as a power of two"
#endif
#define RING_BYTES (1u << RING_BITS)
#define RING_MASK (RING_BYTES - 1)
#define RECORD_LIMIT (1u << 20)
/* If a ring is fuller than this, a thread that writes to it is held until it is empty. */
#define HIGH_WATER (RING_BYTES / 2)
/* Up to here there is room for the longest record. The rest is for records without data. */
#define DATA_WATER (RING_BYTES - RECORD_LIMIT - RING_BYTES / 8)
#define SMALL_RECORD 512u

enum {
	RECORD_CALL, /* a CALL event */
	/* A CALL event without data, then `held_tail`. The data are read while the thread is
	   held. */
	RECORD_HELD,
	RECORD_INPUTS, /* items of the thread's present call */
	RECORD_EVENT,  /* another event */
	RECORD_START,  /* `start_body`: the first record of a thread */
	RECORD_EXEC,   /* `exec_body` and the path: a program begins */
	RECORD_END     /* the wait status: the last record of a thread */
};

enum {
	FLAG_STOPPED = 1 /* the thread was sent the signal that holds it */,
	FLAG_FAULTED = 2 /* not all inputs could be read */
};

struct record {
	u32 bytes; /* with this header, a multiple of 8 */
	u8 kind, flags;
	u16 unused;
	u64 thread;   /* a number that is unique for the whole trace */
	u32 sequence; /* number of the record among the thread's */
	u32 tid;
};

struct ring {
	u64 head, unused[7];  /* written by the programs */
	u64 tail, unused2[7]; /* written by user space */
	u8 unused3[4096 - 128];
	u8 bytes[RING_BYTES + 2 * RECORD_LIMIT + 4096];
};

struct {
	NUMBER(type, BPF_MAP_TYPE_ARRAY);
	NUMBER(max_entries, 1); /* the loader sets the number of processors */
	NUMBER(map_flags, BPF_F_MMAPABLE);
	TYPE(key, u32);
	TYPE(value, struct ring);
} rings SECTION(".maps");

struct thread {
	u64 id;
	u32 sequence;
	u32 flags;
	u32 number;
	u32 faulted; /* inputs at entry could not be read */
	u64 entered_ns;
	u64 arguments[6];
	u64 before[6]; /* value-result lengths at entry */
};

enum { THREAD_AWAITS_EXEC = 1 /* not followed before its exec */, THREAD_IN_CALL = 2 };

struct {
	NUMBER(type, BPF_MAP_TYPE_TASK_STORAGE);
	NUMBER(map_flags, BPF_F_NO_PREALLOC);
	TYPE(key, int);
	TYPE(value, struct thread);
} threads SECTION(".maps");

/* The record that this processor is writing. */
struct work {
	u64 head;   /* position of its first byte */
	u32 size;   /* bytes so far */
	u32 failed; /* WORK_... */
	u64 arguments[6];
	u64 before[6];
	u64 result;
	u64 limit; /* bytes of vectors left */
	u64 array; /* address of the array that is walked */
	u32 argument, direction;
	u32 is_data;
	u32 count;
};

enum { WORK_FAULTED = 1, WORK_TOO_LONG = 2 };

struct {
	NUMBER(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	NUMBER(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct work);
} works SECTION(".maps");

/* Variables that user space sets before it loads the programs. */
const volatile u64 REAL_TIME_OFFSET = 0; /* nanoseconds from the monotonic clock to 1970 */
/* Bytes that are kept of each buffer of plain data. */
const volatile u64 DATA_LIMIT = ~0ULL;
/* Whether threads are held so that user space can look for what no register shows. */
const volatile u64 LOOKS = 0;

/* Counters that user space reads. */
struct counters {
	u64 lost;    /* records for which there was no room */
	u64 foreign; /* calls of 32-bit code */
	u64 next_thread;
};

/* Processes that have mapped files with data. User space adds them, and children inherit the
 * mark. */
struct {
	NUMBER(type, BPF_MAP_TYPE_HASH);
	NUMBER(max_entries, 16384);
	TYPE(key, u32);
	TYPE(value, u32);
} mappers SECTION(".maps");

struct {
	NUMBER(type, BPF_MAP_TYPE_ARRAY);
	NUMBER(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct counters);
} counts SECTION(".maps");

INLINE struct counters *counters(void)
{
	u32 zero = 0;
	return map_lookup(&counts, &zero);
}

INLINE struct ring *own_ring(void)
{
	u32 index = processor();
	return map_lookup(&rings, &index);
}

INLINE struct work *own_work(void)
{
	u32 zero = 0;
	return map_lookup(&works, &zero);
}

INLINE u64 real_time(void) { return now_ns() + REAL_TIME_OFFSET; }

/* Returns the address of an offset in the record that is being written, with room after it for
 * the rest of a record. NULL if the offset is too large. */
INLINE u8 *place(struct ring *ring, struct work *work, u32 offset)
{
	u32 base = (u32)work->head & RING_MASK;
	if (offset > RECORD_LIMIT)
		return 0;
	return ring->bytes + base + offset;
}

/* Begins a record. Returns false if the ring holds more than `water` bytes. */
INLINE u32 begin(struct ring *ring, struct work *work, u32 water)
{
	u64 head = ring->head;
	work->head = head;
	work->size = sizeof(struct record);
	work->failed = 0;
	return head - *(volatile u64 *)&ring->tail <= water;
}

/* Makes the record count. Holds the thread after it if the ring is too full. */
INLINE void publish(
	struct ring *ring, struct work *work, struct thread *thread, u32 kind, u32 flags)
{
	u32 size = work->size;
	struct record *record = (struct record *)place(ring, work, 0);
	if (!record)
		return;
	u64 used = work->head + size - *(volatile u64 *)&ring->tail;
	/* Only at return: a signal that is pending at entry would interrupt a call that waits. */
	if (used > HIGH_WATER && kind == RECORD_CALL)
		flags |= FLAG_STOPPED;
	/* Without a tracer, the program would stop for ever. */
	if (flags & FLAG_STOPPED &&
		(!current_task()->ptrace || signal_thread(19 /* SIGSTOP */) != 0))
		flags &= ~FLAG_STOPPED;
	record->bytes = size;
	record->kind = kind;
	record->flags = flags;
	record->unused = 0;
	record->thread = thread->id;
	record->sequence = thread->sequence++;
	record->tid = (u32)current_ids();
	/* The processor keeps the order of stores. This makes the compiler keep it, too. */
	__asm__ volatile("" ::: "memory");
	*(volatile u64 *)&ring->head = work->head + size;
}

INLINE void lose(void)
{
	struct counters *counters_ = counters();
	if (counters_)
		__sync_fetch_and_add(&counters_->lost, 1);
}

#endif
