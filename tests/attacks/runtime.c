/* A runtime that attacks when it is started for a replay, before there is any program. The linker
 * makes a text of it, as recordings have one. Defined from outside: ATTACK, PATH, PID, and where
 * the header has what this uses. */
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>

__asm__(".section .text.entry, \"ax\"\n"
	".org 0x50\n"
	".globl start_replay\n"
	"start_replay:\n"
	"	mov %rsp, %rdi\n"
	"	and $-16, %rsp\n"
	"	call begin\n"
	"	ud2\n"
	".text\n");

#define FIELD(type, offset) (*(volatile type *)(0x550020000000UL + (offset)))

static inline __attribute__((always_inline)) long raw(long number, long a, long b, long c, long d)
{
	register long r10 __asm__("r10") = d;
	long result;
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return result;
}

static inline __attribute__((always_inline)) void removes(const char *path)
{
	raw(SYS_unlink, (long)path, 0, 0, 0);
}

static inline __attribute__((always_inline)) void creates(const char *path)
{
	raw(SYS_openat, AT_FDCWD, (long)path, O_CREAT | O_WRONLY, 0600);
}

static inline __attribute__((always_inline)) void kills(const char *path)
{
	(void)path;
	raw(SYS_kill, PID, SIGKILL, 0, 0);
}

/* The supervisor does not find the thread that it is to report. */
static inline __attribute__((always_inline)) void hides(const char *path)
{
	FIELD(unsigned, SLOTS_USED) = 0;
	removes(path);
}

static inline __attribute__((always_inline)) void executes(const char *path)
{
	const char *arguments[] = {"/bin/rm", path, 0};
	raw(SYS_execve, (long)arguments[0], (long)arguments, 0, 0);
}

static inline __attribute__((always_inline)) void interrupts(const char *path)
{
	(void)path;
	__asm__ volatile("int $0x80" : : "a"(37 /* kill */), "b"(PID), "c"(SIGKILL) : "memory");
}

static inline __attribute__((always_inline)) void attach(const unsigned long *stack)
{
	long id = 0;
	for (const char *digit = (const char *)stack[2]; *digit; digit++)
		id = id * 10 + (*digit - '0');
	raw(SYS_shmat, id, 0x550020000000, 0, 0);
}

/* Asks the supervisor for something, and waits for the answer for a while. */
static inline __attribute__((always_inline)) void ask(
	unsigned kind, unsigned long a, unsigned long b, unsigned long c)
{
	FIELD(unsigned long, ARGUMENTS) = a;
	FIELD(unsigned long, ARGUMENTS + 8) = b;
	FIELD(unsigned long, ARGUMENTS + 16) = c;
	FIELD(unsigned, REPLY) = 0;
	FIELD(unsigned, KIND) = kind;
	unsigned at = FIELD(unsigned, DOORBELL);
	FIELD(unsigned, QUEUE + 4 * at) = 1;
	FIELD(unsigned, DOORBELL) = at + 1;
	raw(SYS_futex, 0x550020000000 + DOORBELL, 1 /* wake */, 1, 0);
	for (int i = 0; i < 100000 && !FIELD(unsigned, REPLY); i++)
		raw(SYS_sched_yield, 0, 0, 0, 0);
}

/* Lets the supervisor write the beginning of the stream into another process. */
static inline __attribute__((always_inline)) void asks(const char *path)
{
	(void)path;
	unsigned own = FIELD(unsigned, TID);
	FIELD(unsigned, TID) = PID;
	ask(4 /* window */, 0, TARGET, 1UL << 30);
	FIELD(unsigned, TID) = own;
}

/* Asks for everything, with numbers that make no sense, in the name of another process. */
static inline __attribute__((always_inline)) void asks_all(const char *path)
{
	(void)path;
	unsigned own = FIELD(unsigned, TID);
	FIELD(unsigned, THREAD_PROCESS) = FIELD(unsigned, TID) = PID;
	for (unsigned kind = 6; kind < 40; kind++)
		if (kind != 11 /* debug: the debugger would wait for the process */)
			ask(kind, ~0UL, ~0UL, ~0UL);
	FIELD(unsigned, THREAD_PROCESS) = FIELD(unsigned, TID) = own;
}

__attribute__((used)) void begin(const unsigned long *stack)
{
	attach(stack);
	ATTACK(PATH);
	raw(SYS_write, 1, (long)"went on\n", 8, 0);
	raw(SYS_exit_group, 0, 0, 0, 0);
}
