/* Stopping a thread between sync points, and finding the same place again. docs/FORCED.md explains it.
 * crates/patch/src/watch.rs mirrors force_answer, watch_answer and the trace. */
#ifndef RETAKE_FORCED_H
#define RETAKE_FORCED_H
#include "shared.h"
#include "types.h"

struct registers { /* the order of the kernel's sigcontext */
	u64 r8, r9, r10, r11, r12, r13, r14, r15;
	u64 rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags;
};

#define FORCE_TRACE_STEPS 128 /* instructions, and what touches no memory behind them, watched to learn what the program's loop writes */
#define FORCE_SEEK_STEPS 64   /* further ones, until a place comes where replay can plant a jump */
#define FORCE_GOOD 16
#define FORCE_WRITTEN 64
#define FORCE_CELLS 1000
#define FORCE_VECTORS 16
#define FORCE_AREAS 400
#define STACK_WINDOW 0x8000UL /* what tells rounds of an outer loop apart lies in the frames of callers */
#define BUSY_MOST 512

/* Body of EVENT_FORCED; area_count areas follow (8 bytes each: see neighbourhood.c), then cell_count cells. */
struct forced_cell { u64 address, value; };
struct forced_body {
	struct registers regs;
	u64 stack_hash;   /* of `stack_bytes` from rsp - 128 on; 0: unreadable */
	u64 stack_bytes;
	u64 area_hash;    /* of `area_count` areas */
	u64 area_count;
	u64 vector_hash;  /* of the x87, SSE and AVX registers */
	u64 memory_pages; /* counted in the event's memory hash; 0 with hash 0: not taken */
	u64 cell_count;
	u64 vectors[FORCE_VECTORS]; /* low halves of xmm0 to xmm15 */
};
enum { FORCED_TURN = 1 /* event flag: the baton was offered here; one TURN event follows */ };

/* ---- record ---- */

/* Written by the supervisor into our memory. */
struct force_answer {
	u64 good_count, written_count;
	u64 good[FORCE_GOOD];       /* places near where a jump can be planted */
	u64 written[FORCE_WRITTEN]; /* 8-byte words that the traced instructions wrote, the latest first */
};

/* Before the thread is stopped for good it is stopped twice in passing, to see which memory its loop changes. */
enum force_phase { PHASE_FIRST, PHASE_LISTED, PHASE_COPIED };
enum force_stage { FORCE_NONE, FORCE_TRACE, FORCE_SEEK };
struct force {
	u32 stage, steps;
	u32 asked;         /* the supervisor, at this stop */
	u32 phase;         /* enum force_phase */
	u32 cancelled;     /* attempts since it was stopped last */
	u32 apart;         /* instructions run in the scratch page, which allows it */
	u32 finishing;     /* some do, or a repeated string instruction to its end */
	u32 after_pushf;   /* bytes of flags that the stepped instruction pushes */
	u32 leaving;       /* stepping began in the runtime, which is not left yet */
	u32 stop_after;    /* so many steps; 0: by the trace */
	u32 anywhere;      /* chaos: steps in libraries count too */
	u32 total, counted; /* chaos: steps */
	u32 stops;         /* chaos: after so many steps, so far */
	u32 stopped;       /* it is at a forced point */
	u64 began_ns;      /* when this stop did */
	u64 finish_at, finish_next, finish_trap;
	u64 scan_ns, scan_allowed_ns; /* how long the last scan of memory took, and when one is due again */
	u64 vector_hash;
	u64 vectors[FORCE_VECTORS];
	struct force_answer answer;
};

/* ---- displaced.c: record ---- */
#define MOST_INSTRUCTION_BYTES 15
/* `code` has room for so many bytes, whatever is in those behind the instruction. */
u32 displaced_length(const u8 *code);                       /* of an instruction that does the same elsewhere; 0: it may not */
u32 displaced_in_registers(const u8 *code);                 /* the same of one that touches no memory, and does not pause */
#define NEAR_CALL 0xe8
#define NEAR_CALL_BYTES 5
u64 displaced_branch(const u8 *code, u64 rip, u64 flags); /* where a jump, or such a call, leads without operands in memory; 0: it is none */

/* ---- replay ---- */

#define WATCH_TESTS 8
#define WATCH_CODE_OFFSET 0x600UL /* in the stub page: the displaced instructions; the tests come before, the jump's target after */
#define WATCH_CODE_BYTES 96
#define WATCH_PATCH_BYTES 24
#define WATCH_NO_START 0xff

/* Written by the supervisor into our memory. */
struct watch_answer {
	u64 stub;         /* free address for the stub page; 0: none near enough */
	u64 entry;        /* where in it the planted jump leads: chosen so that the jump's own bytes trap where instructions were */
	u64 protection;   /* PROT_* of the code */
	u64 patch_bytes;  /* 1: only a trap fits; 5 or more: a jump, and the rest of the last instruction */
	u64 code_bytes;   /* 0: the instruction cannot be displaced */
	u64 flags_dead;   /* the program sets its status flags anew before it looks at them */
	u8 starts[WATCH_PATCH_BYTES]; /* of the displaced instruction that began at this byte, its place in `code`; or WATCH_NO_START */
	u8 code[WATCH_CODE_BYTES];
};

struct watch_test { u32 kind, index; u64 address, value; };
struct watch {
	u32 armed, stepping;
	u32 after_pushf, test_count;
	u64 address;           /* where the program is to be stopped */
	u64 trap;              /* the trap at the end of all tests */
	u64 scratch;           /* the stub keeps rax here */
	u64 misses, hash_misses;
	u64 armed_ns;          /* when the search began */
	const struct forced_body *body;
	u64 memory_hash;
	u8 original[WATCH_PATCH_BYTES];
	struct watch_test tests[WATCH_TESTS];
	struct watch_answer answer;
};

struct context;
struct siginfo;
/* At the top of the master handler: 1 when the signal was for us. `extended`: the frame's XSAVE area. */
u32 forced_handler(struct context *context, struct siginfo *info, struct registers *regs, u64 extended);
void force_want(struct context *context, u32 in_runtime); /* record, in the handler: a signal was put off */
void force_settle(struct context *context);               /* record: no forcing signal is on its way any more */
void force_close(struct context *context);                /* record: and none will come until force_open */
void force_open(struct context *context);
u32 force_after(struct context *context);                 /* record, chaos: maybe a few instructions from here; LEAVE_* */
void note_stubs(u64 start, u64 bytes);                    /* of the files that were mapped before us */
void watch_next(struct context *context);                 /* replay: control is about to go back to the program */
u32 watch_handler(struct context *context, const struct siginfo *info, struct registers *regs, u64 extended);
void watch_disarm(struct context *context);
void force_to_entry(struct context *context, struct registers *regs);
u32 forced_deliver(struct context *context, struct registers *regs); /* trace, in the handler: what was put off is delivered right here, if it can be */

/* ---- neighbourhood.c ---- */
struct busy { u64 count; struct address_range ranges[BUSY_MOST]; }; /* where the kernel may be writing; a higher count: more than could be listed */
void find_busy(struct context *context, struct busy *busy);
u64 stack_window(struct context *context, const struct busy *busy); /* bytes that are compared, from the red zone's end on */
u64 stack_hash(u64 rsp, u64 bytes);
u64 find_areas(struct context *context, const struct busy *busy, u64 stack_bytes, u64 *areas);
static inline u64 area_start(u64 area) { return area & ~63UL; }
u64 areas_hash(const u64 *areas, u64 count); /* 0: something cannot be read */

/* What both modes compute. */
u64 forced_vector_hash(u64 extended);
u64 forced_vector(u64 extended, u32 index);

/* ---- stepping.c ---- */
#define SCRATCH_OFFSET 0x80000UL /* in the region: a page for copies of instructions; the trace lies behind */
u64 scratch_page(const struct context *context);
u32 repeated_string(u64 rip); /* f2 or f3 with movs, cmps, stos, lods, scas: bytes of the instruction; 0 for everything else */
u32 bring_over(struct context *context, struct registers *regs); /* over the next instructions. 1: the thread is already; 0: a trap follows */
u64 place_in_program(const struct context *context, u64 address); /* where that is of which a copy lies at the address; else the address */
u32 pushes_flags(u64 rip);               /* bytes, or 0 */
void clear_pushed_trap_flag(u64 rsp, u32 bytes);
#define TRAP_FLAG 0x100UL
#define RESUME_FLAG 0x10000UL
#define TRAP_TRACE 2
#define STATUS_FLAGS 0xcd5UL /* carry, parity, adjust, zero, sign, direction, overflow */

#endif
