/* Per-thread and per-process state of the runtime, and what its files offer each other. */
#ifndef RETAKE_CONTEXT_H
#define RETAKE_CONTEXT_H
#include "contract/context.h"
#include "forced.h"
#include "shared.h"
#include "../gen/numbers.h"
#include "../gen/table.h"

struct signal_action { /* the kernel's layout for rt_sigaction */
	u64 handler, flags, restorer, mask;
};

#define MAX_RESERVATIONS 512
struct reservation { /* a library whose stubs have their place */
	u64 base;
	u32 file;
	u32 stubs_attached;
};

#define MAX_REGIONS 4096
#define MAX_SHARED_RANGES 64

#define MAX_LOOKED 32u
#define MAX_HIDDEN 32u
#define MAX_CHILDREN 128
struct child { u32 recorded, real; };

#define UNCHANGED_FILES 16

struct process {
	struct domain *domain;      /* NULL: one thread, no memory shared with others. At replay each thread's context says where it is */
	struct domain private_domain;
	struct context *holder;     /* record: of the thread that took the private domain's baton last */
	u32 thread_count;
	u32 had_threads;            /* this process, or one that it is a copy of */
	u32 ending;                 /* replay: a thread has ended the process; the last of the others does it. with ending_status */
	u32 ending_status;          /* wait status */
	u32 alone;                  /* record: stream + 1 of the thread that is ending all others: those get no turn any more */
	u32 lock;                   /* trace: see process_lock */
	u32 shared_range_count;     /* record: more than there is room for: not all are known. Of the first process in this memory */
	struct address_range shared_ranges[MAX_SHARED_RANGES]; /* record: where memory is, or was, that other processes may have too */
	u32 stored_count;           /* record: files that the supervisor stored for it */
	u32 unknown_calls;          /* record: there is code that may call the kernel where nothing is patched */
	struct signal_action actions[65];
	u64 break_start, break_end; /* replay: the emulated program break */
	u32 region_count;           /* regions ever handed out */
	u32 regions_free_count;
	u16 regions_free[MAX_REGIONS];
	u8 regions_unmapped[MAX_REGIONS / 8];
	struct descriptor_uses uses;
	u64 files[LOW_DESCRIPTORS / 64]; /* record: descriptors of regular files whose writes do not wait for the disk, */
	u64 asked[LOW_DESCRIPTORS / 64]; /* those for which the kernel was asked whether calls wait, */
	u64 ready[LOW_DESCRIPTORS / 64]; /* and those whose calls do not: O_NONBLOCK */
	u64 apart[LOW_DESCRIPTORS / 64]; /* record: descriptors whose files are none of the header's shared files, */
	u32 apart_among;                 /* when those were so many */
	u32 mixed_descriptors;           /* record: its threads, or another process and it, may have more or fewer descriptors in common than is usual */
	u32 reservation_count;
	struct reservation reservations[MAX_RESERVATIONS];
	u32 unchanged_next;
	struct { u64 device, inode; } unchanged[UNCHANGED_FILES]; /* replay: files that nothing in the recording changes, as the supervisor said */
	u32 children_count; /* replay: those that its parent may wait for */
	struct child children[MAX_CHILDREN];
	u64 vdso_start, vdso_end;
	u32 is_placed; /* record: it has said itself where its threads are to run */
	u32 counter_compared;
	u64 counter_ahead; /* record: ticks of the time-stamp counter beyond what the kernel's clock makes of them */
	u64 clocks; /* record: where the vDSO is as long as we can call it; 0: not */
	u32 first_stub_count; /* of the program and of its interpreter */
	struct address_range first_stubs[2];
	u32 looked_count;           /* trace, or replay for one: mapped files whose pages are of interest; MAX_LOOKED + 1: more than that */
	struct address_range looked[MAX_LOOKED];
	u32 hidden_count;           /* record: text that is not executable although the program thinks so */
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

/* ---- entry.S ---- */
enum { LEAVE_FAST = 0, LEAVE_FULL = 1 };
#define CALL_ABORTED (-512L) /* a deferred signal came first: nothing was executed */
i64 call_kernel_window(u64 number, const u64 *arguments);
u64 copy_user(void *destination, const void *source, u64 bytes); /* bytes not copied */
i64 string_length_user(const char *text, u64 limit);             /* -1: fault */
void restore_full(struct context *context) NORETURN;
void extended_save(void *area, u64 features);
u64 extended_restore(const void *area, u64 features); /* nonzero: the area is invalid */
i64 clone_on_stack(u64 flags, u64 stack, u64 parent_tid, u64 child_tid, u64 tls, struct context *child);
void signal_restorer(void);
void signal_entry(void);
void fault_entry(void);
extern const char runtime_text_end[], window_start[], window_call[], window_abort[];
extern const char plain_window_start[], plain_window_call[], plain_window_abort[], other_window_start[], other_window_call[], other_window_abort[];
extern const char copy_user_start[], copy_user_end[], copy_user_fixup[];
extern const char string_user_start[], string_user_end[], string_user_fixup[];
u32 hash_user_blocks(const void *bytes, u64 block_count, u64 lanes[4]);
extern const char hash_user_start[], hash_user_end[], hash_user_fixup[];
extern const char extended_restore_at[], extended_restore_fixup[];
void entry_syscall(void);

/* ---- kernel calls of our own ---- */
#define PROT_READ 1u
#define PROT_WRITE 2u
#define PROT_EXEC 4u
static inline i64 sys6(u64 number, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f)
{
	i64 result;
	register u64 r10 __asm__("r10") = d;
	register u64 r8 __asm__("r8") = e;
	register u64 r9 __asm__("r9") = f;
	__asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
	return result;
}
#define sys0(n) sys6(n, 0, 0, 0, 0, 0, 0)
#define sys1(n, a) sys6(n, (u64)(a), 0, 0, 0, 0, 0)
#define sys2(n, a, b) sys6(n, (u64)(a), (u64)(b), 0, 0, 0, 0)
#define sys3(n, a, b, c) sys6(n, (u64)(a), (u64)(b), (u64)(c), 0, 0, 0)
#define sys4(n, a, b, c, d) sys6(n, (u64)(a), (u64)(b), (u64)(c), (u64)(d), 0, 0)
#define sys5(n, a, b, c, d, e) sys6(n, (u64)(a), (u64)(b), (u64)(c), (u64)(d), (u64)(e), 0)

static inline u32 recording(void) { return HEADER->mode != MODE_REPLAY; } /* or tracing: calls are executed */
static inline u32 tracing(void) { return HEADER->mode == MODE_TRACE; }
static inline u32 slots_used(void)
{
	u32 used = __atomic_load_n(&HEADER->slots_used, __ATOMIC_ACQUIRE);
	return used < MAX_SLOTS ? used : MAX_SLOTS;
}
/* A thread that lives, of this process; another one than this. */
static inline u32 is_of_process(const struct context *context, const struct slot *slot) { return slot->pid == context->slot->pid && __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) == SLOT_LIVE; }
static inline u32 is_sibling(const struct context *context, const struct slot *slot) { return slot != context->slot && is_of_process(context, slot); }

/* The kernel keeps the number of each core in the limit of this segment, for programs to read without a call. */
static inline u32 this_core(void)
{
	u64 limit = 0;
	__asm__ volatile("lsl %1, %0" : "+r"(limit) : "r"(0x7bUL) : "cc");
	return limit & 0xfff;
}

/* ---- futex.c: waiting for the supervisor ---- */
void futex_wait(u32 *word, u32 value, u64 timeout_ms);
void ring_drain(void); /* record: the supervisor's drain shall look now */
void futex_wake(u32 *word, i32 count);
u64 now_ns(void); /* on the monotonic clock */
void fail(const char *message) NORETURN; /* a bug, or the machine cannot go on: say so and end the process */

/* ---- ring.c: the stream being recorded ---- */
void ring_wait(struct context *context, u64 bytes);
static inline u8 *ring_reserve(struct context *context, u64 bytes) /* room for so many, at most RING_BYTES, in one piece: the ring is mapped twice */
{
	if (UNLIKELY(context->head + bytes - context->tail_seen > RING_BYTES))
		ring_wait(context, bytes);
	return context->ring + (context->head & (RING_BYTES - 1));
}
void ring_publish(struct context *context, u64 bytes);
void ring_write(struct context *context, const void *bytes, u64 count); /* any size; user memory allowed */
void ring_copy(u8 *to, const void *bytes, u64 count); /* of user memory, at least one */
void ring_item(struct context *context, const struct item *item, const void *bytes); /* and its inline bytes, padded */
void ring_event(struct context *context, u8 kind, u8 flags, u16 number, i64 value, const void *body, u64 body_bytes);
static inline void count_event(struct context *context) { context->event_count++; }

/* ---- log.c: the stream being replayed ---- */
const struct event *log_peek(struct context *context); /* NULL: the stream ends here */
const struct event *log_take(struct context *context, u8 kind, u16 number);
void diverge(struct context *context, u64 why, u64 expected, u64 actual) NORETURN;
void end_of_stream(struct context *context) NORETURN;
void end_process(struct context *context, u32 status) NORETURN;

/* ---- items.c: what a call reads and writes ---- */
/* On the path of every call only the fields that count are set: clearing all of them costs as much as the rest. */
struct sink {
	enum { SINK_INPUT, SINK_MEASURE, SINK_EMIT, SINK_VERIFY } mode;
	struct context *context;
	u8 *position, *limit;      /* SINK_INPUT, SINK_MEASURE: where items go */
	u64 bytes;                 /* SINK_MEASURE: sum. Items are written at once as long as they fit, */
	u32 overflown;             /* and then no longer: SINK_EMIT has to follow */
	u64 largest;               /* no item has more bytes */
	u64 pointee_before;        /* what a value-result length was before the call */
	const u8 *item, *item_end; /* SINK_VERIFY */
	/* trace */
	u8 direction;              /* SINK_EMIT: of the items */
	u8 is_data;                /* bytes that mean nothing to the kernel: the data limit holds for them */
	u8 is_late;                /* SINK_INPUT: from here on they did not fit */
	u32 staged;                /* SINK_INPUT: items that did. SINK_MEASURE, SINK_EMIT: to be passed over */
	u64 room;                  /* SINK_EMIT: what was measured, and is left of it */
};
void sink_item(struct sink *sink, u32 argument, u64 address, u64 bytes); /* trace.c */
const struct call_row *find_row(u64 number, const u64 *arguments);
void visit_inputs(struct sink *sink, const struct call_row *row, const u64 *arguments);
void visit_outputs(struct sink *sink, const struct call_row *row, const u64 *arguments, i64 result);
#define LARGEST_MOVE 0x7ffff000UL /* bytes, by one call */
static inline u64 not_negative(u64 value) { return (i64)value < 0 ? 0 : value; }
static inline u64 bytes_of(const struct argument_rule *rule, u64 count) { return minimum(minimum(count, LARGEST_MOVE) * rule->element_bytes + rule->count, LARGEST_MOVE); }
#define INLINE_WHOLE 128u /* inputs up to this many bytes are kept whole for people to read */
u8 *stage_input(u8 *position, const u8 *limit, u32 argument, u64 address, u64 total, u64 inline_limit); /* record: its item; behind that */
static inline struct item output_item(u32 argument, u64 address, u64 bytes) { return (struct item){ (u8)argument, ITEM_OUTPUT, 0, (u32)bytes, (u32)bytes, 0, address }; }
u8 *stage_output(u8 *position, const u8 *limit, u32 argument, u64 address, u64 bytes); /* its item; behind that, or NULL if it does not fit */
u64 hash_user(const void *bytes, u64 count, u32 *faulted); /* any memory; 0 and *faulted = 1 when it cannot be read */

/* ---- call.c ---- */
struct extra_item { /* an item that a custom call adds to its event */
	u8 argument, direction;
	u64 address;
	const void *bytes;
	u32 count;
};
struct call {
	struct context *context;
	const struct call_row *row;
	u64 number;
	u64 arguments[6]; /* the program's */
	u64 actual[6];    /* what is handed to the kernel */
	i64 result;
	const struct event *event; /* replay: the event that answers it */
	u8 *start, *position; /* record: the event under construction. replay: position = its first item after the inputs */
	u64 pointee_before;
	u8 flags;
	u64 console_sequence;
	u8 outputs_by_hand; /* the handler knows them better than the table's row */
	u8 inputs_late;     /* trace: not all inputs fit in what was staged */
	u32 inputs_staged;
	struct call_times *times;
};
void call_begin(struct call *call, struct context *context); /* of its registers, everything that not every call sets itself */
void call_prepare(struct call *call);          /* record: stage inputs. replay: take the event, verify it */
void turn_before_staged(struct context *context, u64 turn, u8 **start, u8 **position); /* record: a TURN event, before the staged one */
i64 call_execute(struct call *call);           /* record: execute `actual`, result kept. replay: result from the log */
void call_finish(struct call *call, const struct extra_item *extra, u32 extra_count); /* record: log. replay: write outputs */
/* answer.c: replay */
void call_verify_early(struct context *context); /* what it reads, for it waits for its turn before it takes the event */
void call_answer(struct call *call);          /* takes and verifies the event */
void call_finish_answered(struct call *call); /* copies the recorded outputs where the kernel had put them */
const struct item *call_find_item(struct call *call, u8 direction, u8 argument);
/* trace.c */
void trace_prepare(struct call *call);
void trace_finish(struct call *call, const struct extra_item *extra, u32 extra_count);
u64 trace_clock(u32 *processor); /* nanoseconds since 1970 */
/* look.c */
u32 look_needed(const struct call *call);
void look_before(struct call *call);
void look_after(struct call *call);
void look_mapped(struct call *call, u32 is_program);
u32 looks_at_mappings(void);                      /* somebody wants to know what is stored in mapped files */
void look_note(struct call *call, u32 writes);    /* what the call has mapped is of interest */
void look_replayed(struct call *call);            /* replay: its event was taken, nothing of it was done */
u32 look_unmap(struct context *context, u64 start, u64 bytes); /* before: whether something of interest is there */
void look_unmapped(struct context *context, u64 start, u64 bytes);
void look_moved(struct context *context, u64 start, u64 bytes);
void look_end(struct context *context);
typedef u32 custom_handler(struct call *call); /* returns LEAVE_* ; the result is in call->result */
#define DECLARE_HANDLER(name) u32 handle_##name(struct call *call);
CUSTOM_HANDLERS(DECLARE_HANDLER)
u32 runtime_syscall(struct context *context);
void runtime_tsc(struct context *context, u64 which);
void runtime_cpuid(struct context *context);
void emulate_cpuid(struct registers *regs);
void counter_compare(struct process *process);
void emulate_tsc(struct context *context, struct registers *regs, u32 with_aux);

/* ---- signal.c, frame.c ---- */
void signals_install(struct context *context);
void apply_action(u32 number, const struct signal_action *action);
void signals_apply(struct context *context);
void signals_clear(struct context *context); /* handlers become the default, as CLONE_CLEAR_SIGHAND wants */
void set_kernel_mask(struct context *context, u64 mask);
void hold_signals(struct context *context); /* record: none comes until set_kernel_mask */
u32 deliver_deferred(struct context *context, u32 before_call); /* LEAVE_* */
u32 replay_signals(struct context *context, u32 before_call);
u32 replay_undone(struct context *context);
void back_to_call(struct context *context); /* undoes the call: the program is to make it again */
void replay_fatal(struct context *context, u32 before_call);
u32 leave(struct context *context);
static inline u32 leave_with_result(struct call *call) /* the program finds it in rax */
{
	call->context->regs.rax = (u64)call->result;
	return leave(call->context);
}
void runtime_fault(struct context *context);
void raise_fault(struct context *context, const struct deferred_signal *raised, u32 certain);
u32 push_frame(struct context *context, u32 number, const struct siginfo *info, const struct fault *fault, u64 saved_mask);
void die_by_signal(struct context *context, u32 number) NORETURN;
#define SIGNAL_BIT(n) (1UL << ((n)-1))
enum { SIGILL = 4, SIGTRAP = 5, SIGABRT = 6, SIGBUS = 7, SIGFPE = 8, SIGKILL = 9, SIGSEGV = 11, SIGCHLD = 17, SIGCONT = 18, SIGSTOP = 19, SIGTSTP = 20, SIGTTIN = 21, SIGTTOU = 22, SIGURG = 23, SIGWINCH = 28, SIGSYS = 31 };
#define SYNCHRONOUS (SIGNAL_BIT(SIGSEGV) | SIGNAL_BIT(SIGBUS) | SIGNAL_BIT(SIGILL) | SIGNAL_BIT(SIGFPE) | SIGNAL_BIT(SIGTRAP) | SIGNAL_BIT(SIGSYS))

/* ---- baton.c ---- */
void home_follow(struct context *context, struct domain *domain, u64 turn); /* to the core where its domain is, or may go */
void home_leave(struct context *context);     /* it takes no more turns there, or becomes another program */
void home_inherit(const struct slot *parent, struct slot *child); /* before the child is made */
void baton_begin(struct context *context);    /* the first thing in a new stream that has a domain */
void baton_inherit(struct context *child);    /* a process that was forked off */
void baton_create(struct context *context);   /* record: from here on the process has a domain */
void baton_join(struct context *context);     /* record: from here on it is that of all processes that share memory */
static inline u32 shares_memory(const struct domain *domain) { return domain == &HEADER->shared_domain; }
/* Of a turn taken now. Each one says whose it is: another thread may have made the process join others. */
static inline u16 turn_kind(const struct context *context) { return shares_memory(context->domain) ? TURN_SHARED : TURN_AGAIN; }
static inline void note_turn(struct context *context, u64 turn) /* record: its event is in the stream */
{
	context->turn = context->slot->baton.turn_logged = turn;
	context->turn_sections = context->slot->baton.turn_sections = 0;
}
void baton_release(struct context *context);  /* record */
u32 baton_lend(struct context *context);     /* record, instead of releasing it, around a call that is soon back, if somebody waits. 1: baton_take_back is to follow */
u32 baton_take_back(struct context *context, u64 *turn); /* as baton_acquire */
void baton_keep_alone(struct context *context, u32 alone);
u32 baton_acquire(struct context *context, u64 *turn); /* record: 1 when the holder changed: the caller logs the turn */
void baton_yield(struct context *context);    /* record: lets those who waited long go first */
void baton_leave(struct context *context);    /* record, chaos: on the way back to the program's code */
void baton_signalled(struct context *context); /* record: a signal was put off */
u32 baton_give(struct context *context, u64 passages); /* record, at a passage: others go first, if there are any. 1: the log says so */
void baton_offer(struct context *context);    /* at a forced point whose event has FORCED_TURN */
void baton_end_process(struct context *context);
void baton_end(struct context *context);      /* the thread will run no more user code */

static inline struct domain *domain_of(const struct context *context) { return recording() ? context->process->domain : context->domain; }
void baton_enter_section(struct context *context); /* it has not the baton, and gets it */
void baton_leave_section(struct context *context); /* it has, and gives it up */
void baton_lock(struct context *context);          /* record: nobody else has the baton, but it is no turn */
void baton_unlock(struct context *context);
void baton_lock_is_section(struct context *context); /* record: it is, after all */
static inline u32 sync_policy(void) { return HEADER->options & OPTION_SYNC; }

/* ---- turn.c: replay ---- */
#define SECTION_SPINS 4000 /* sections are short, but one may be a call: waking another thread, say */
void turn_complete(struct context *context);      /* the turn, if it has one, is over */
void turn_obey_all(struct context *context, u32 at_call); /* obeys TURN events that come next */
void turn_obey_next(struct context *context);           /* there is to be one, and only that: the next may be of the system call that comes */
void turn_leave(struct context *context); /* obeys what baton_leave logged; a TURN event comes next */
u32 turn_is_over(struct context *context);      /* no more sections of its turn, nor events, are in its stream */
void turn_enter_section(struct context *context);
void turn_leave_section(struct context *context);

/* ---- passage.c ---- */
void passage(struct context *context);     /* the thread has passed a function that is counted, and was to come here */
void passage_ask(struct domain *domain, u32 lock); /* record: whoever has the baton, as its lock says, is to come here at its next passage, and let others go first */
void passage_expect(struct context *context, const struct event *event); /* replay: the next event is one of a passage */

/* ---- section.c ---- */
void section_enter(struct context *context); /* the runtime: a call */
void section_leave(struct context *context); /* the runtime: on the way back to the program, last of all */
void section_compare(struct context *context, u32 begins); /* the program, where the section is a compare-and-exchange */
void section_note_failed(struct context *context);
static inline void section_note(struct context *context) /* record: before whatever else goes into the stream */
{
	if (UNLIKELY(context->failed.site))
		section_note_failed(context);
}
void section_inherit(struct context *child); /* in a process of its own */

/* ---- seccomp.c ---- */
u32 filter_call(struct call *call, u32 *how); /* 1: the program's filter has decided; *how is LEAVE_* */
u32 filter_set(struct call *call);            /* prctl(PR_SET_SECCOMP) */
u32 filter_mode(struct call *call);           /* prctl(PR_GET_SECCOMP) */

/* ---- futex_pi.c ---- */
void futex_waits(struct call *call);

/* ---- robust.c ---- */
void robust_release(struct context *context); /* the thread dies */

/* ---- chaos.c: record, if the user wants to see rare interleavings ---- */
static inline u32 chaos(void) { return HEADER->chaos.seed != 0; }
u64 chaos_below(struct context *context, u64 limit); /* a random number */
u32 chaos_one_in(struct context *context, u32 count);
void chaos_new_priority(struct context *context);
void chaos_delay(struct context *context);
u32 chaos_goes_first(struct context *context); /* of all that wait for the same baton */

/* ---- namespace.c ---- */
#define CLONE_FILES 0x400UL
#define CLONE_NEWIPC 0x08000000UL
#define CLONE_NEWPID 0x20000000UL
void pid_space_inherit(const struct slot *parent, struct slot *child, u64 flags);
void identify_thread(struct context *context, u32 first); /* record: fills in who it is, for itself and for the supervisor. first: of its process */
u32 may_have_ipc_namespace(u64 flags);                    /* record: as the kernel would decide */
u32 is_spared(const struct context *context);             /* the first process of a PID namespace is not ended by signals without handlers */

/* ---- misc.c ---- */
u32 handle_plainly(struct call *call); /* with nothing special about it */
u32 answer_call(struct call *call, i64 result); /* record: it is not made; the program gets the result */

/* ---- wait.c ---- */
void child_note(struct process *process, u64 flags, u32 recorded, u32 real); /* replay: what the program and what the kernel call a child */

/* ---- process.c ---- */
void mark_siblings_dying(struct context *context);
void process_lock(void); /* trace: for what the threads of an address space share and change; nothing in other modes, where the baton does it */
void process_unlock(void);
struct context *region_create(u32 *region);
void region_attach_ring(struct context *context);
void region_return(u32 region);
struct slot *slot_claim(void);

/* ---- interception.c ---- */
/* Has calls dispatched, or not, as is needed now. */
void arm_interception(struct context *context);
void expect_unknown_calls(struct context *context);

void log_exit(struct context *context, u16 number, i64 status);
void slot_exited(struct context *context); /* the last word of a stream: from here on the slot may be another thread's */
i64 request(struct context *context, u32 kind, u64 a, u64 b, u64 c);

/* ---- start.c ---- */
void populate_text(void); /* record: after the text appeared in this process */
char *put_decimal(char *end, u64 value); /* digits and a zero, up to there; where they begin */

/* ---- forced.c, but for what forced.h has ---- */
u32 in_stubs(const struct process *process, u64 address);

/* ---- hash.c ---- */
void memory_hash(struct context *context, u64 *hash, u64 *pages);
void final_hash(struct context *context, u64 *hash, u64 *pages); /* 0: nothing can be said */
struct page_hash { u64 address, hash; };
#define PAGE_LIST_CAPACITY 20000 /* 80 MB: in larger processes nobody looks for changed pages */
#define PAGE_LIST_CHANGED 16
struct page_list {
	u64 complete, count, position, changed_count;
	u64 changed[PAGE_LIST_CHANGED];
	struct page_hash pages[PAGE_LIST_CAPACITY];
};
void hash_at_interval(struct context *context); /* record: a HASH event, if it is time for one */
void hash_replay(struct context *context);      /* replay: the next event is a HASH event */
void memory_list(struct context *context, struct page_list *list); /* first: lists all pages. again: those that changed since */
void memory_scan(struct context *context, u64 *hash, u64 *pages); /* of all memory, whatever the options say */

/* ---- descriptors.c: record ---- */
u32 high_descriptor_use(const struct process *process, u64 descriptor);
static inline u32 descriptor_use(const struct process *process, u64 descriptor) /* DESCRIPTOR_*, 0: none of them */
{
	return LIKELY(descriptor < LOW_DESCRIPTORS) ? process->uses.low[descriptor] : high_descriptor_use(process, descriptor);
}
#define O_NONBLOCK 04000
static inline i64 status_flags(u64 descriptor) { return sys3(NR_fcntl, (u32)descriptor, 3 /* F_GETFL */, 0); }
u32 descriptor_is_soon_back(struct context *context); /* the call that it is about to make, of what may wait */
void descriptor_is_memory(struct call *call);                      /* the one that the call made */
void descriptors_inherit(struct process *process, const struct descriptor_uses *before); /* those that exec left open */
void descriptors_after(struct call *call);

/* ---- console.c ---- */
u32 console_lock(struct call *call); /* which console it writes to: 0 none */
void console_unlock(struct call *call, u32 which);
u32 console_hides_data(struct call *call);
void console_replay(struct context *context, const struct event *event);

/* ---- sharing.c: record ---- */
u32 shared_by(u64 protection, u64 flags, u64 descriptor); /* the arguments of an mmap: others may write what it shows */
void shared_join(struct context *context);
void shared_note(u64 start, u64 bytes);
void shared_moved(u64 from, u64 bytes, u64 to, u64 new_bytes);
u32 shared_overlaps(u64 start, u64 end);

/* ---- moved.c: record ---- */
#define CLONE_FILE 0x40049409u  /* FICLONE */
#define CLONE_RANGE 0x4020940du /* FICLONERANGE */
struct view { u64 start, bytes; }; /* memory of ours for a moment */
u32 moved_needed(const struct call *call);
static inline u32 moved_wanted(const struct call *call) { return UNLIKELY(HEADER->options & OPTION_MOVED_DATA) && moved_needed(call); }
u64 moved_to(const struct call *call, u64 *bytes); /* where in the file that it moved them to, ~0 if nobody knows; only of calls that are needed */
u32 moved_look(const struct call *call, struct view *view, struct extra_item *extra); /* items added */
const void *view_file(struct view *view, u32 descriptor, u64 start, u64 bytes); /* NULL: it cannot be had */
void view_end(const struct view *view);

/* ---- shared_file.c ---- */
struct file_identity { /* times and size as far as they were asked for */
	u64 device; /* in its high half: some bits of when the file was made, since inodes are used again */
	u64 inode, size, modified_ns, changed_ns;
	u32 regular;
};
u32 identify_file(u64 descriptor, struct file_identity *identity, u32 with_times); /* 0: it cannot be asked */
void shared_file_note(u64 device, u64 inode, u32 changes);
u32 shared_file_is(u64 device, u64 inode);
u32 shared_file_changes(u64 device, u64 inode);
u32 shared_file_concerns(struct process *process, u64 number, u64 first_argument); /* record: 0: the call can neither have read nor changed one of them */
u32 shared_file_write(struct call *call, struct file_write *write, struct view *view, struct extra_item *extra); /* record: items added, two at most */
u32 shared_file_read(const struct call *call, struct extra_item *extra); /* record: items added */
void shared_file_rewrite(struct call *call, const struct item *item);    /* replay */
i64 scratch_open(u64 device, u64 inode);

/* ---- unreached.c: record ---- */
u32 unreached_hide(struct process *process, const struct file_entry *file, u64 bias, u64 start, u64 end);
void unreached_show(struct context *context);
u32 unreached_holds(const struct process *process, u64 address); /* it is hidden */
void unreached_touch(struct context *context, u64 start, u64 bytes, u32 gone);

/* ---- clock.c: record ---- */
u32 clock_record(struct context *context); /* the clock that the thread asks for. 0: the kernel is to be asked */
void clock_touch(struct context *context, u64 start, u64 bytes);

/* ---- map_lines.c ---- */
struct map_line { /* of /proc/PID/maps */
	u64 start, end, offset, device, inode;
	const char *permissions; /* four letters */
	const char *rest;        /* from the space before the device to the end of the line */
};
u64 hexadecimal(const char **text);
struct map_line read_map_line(const char *text);
void walk_maps(void (*visit)(void *closure, const struct map_line *line), void *closure);
void walk_writable(void (*visit)(void *closure, u64 start, u64 end), void *closure); /* what can be read and written; perhaps some of it twice */

/* ---- maps.c ---- */
void filter_open(struct call *call);

/* ---- debug.c: replay under a debugger ---- */
u32 is_debugged(void); /* it is replayed, and a debugger wants one process of the tree */
void debug_begin(struct context *context);              /* the process begins, or its new program does */
u32 debug_skips_child(struct call *call, u64 flags);    /* nobody needs that process */
void debug_event(u64 kind, u64 value);                  /* entry.S: a place for a breakpoint */
void debug_call(struct context *context);
void debug_return(struct context *context);
static inline u32 debug_catches(const struct context *context)
{
	u64 number = context->number;
	return context->event_count >= context->told_from - 1 || (number < 64 * CAUGHT_WORDS && context->caught[number / 64] >> number % 64 & 1);
}
static inline u32 debug_pauses(const struct context *context) { return context->event_count >= context->pause_at - 1; }

/* ---- start.c ---- */
void replay_exec(struct context *context, const struct event *event) NORETURN;
void note_ignored(struct context *context); /* what exec keeps of the dispositions goes into the slot */

#endif
