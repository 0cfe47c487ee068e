/* Stopping a thread between sync points, and finding the same place again. docs/FORCED.md explains it. */
#ifndef RETAKE_FORCED_H
#define RETAKE_FORCED_H
#include "contract/context.h"
#include "displaced.h"
#include "shared.h"

#define STACK_WINDOW 0x8000UL /* what tells rounds of an outer loop apart lies in the frames of callers */
#define BUSY_MOST 512

/* ---- record ---- */

/* Before the thread is stopped for good it is stopped twice in passing, to see which memory its loop changes. */
enum force_phase { PHASE_FIRST, PHASE_LISTED, PHASE_COPIED };
enum force_stage { FORCE_NONE, FORCE_TRACE, FORCE_SEEK };
/* ---- replay ---- */

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
