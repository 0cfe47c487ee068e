/* attacker ATTACK PATH PID SEGMENT [fork|thread|exec]: does nothing while it is recorded. At replay
 * it makes a call, past the runtime, that would touch what its arguments name. */
#include "raw.h"
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <ucontext.h>

static const char *path;
static long pid, segment;
static unsigned char *low; /* below 4 GB */

static long creates(long number)
{
	return raw(number, AT_FDCWD, (long)path, O_CREAT | O_WRONLY, 0600, 0);
}

static void open_write(void) { creates(SYS_openat); }
static void open_read(void) { raw(SYS_openat, AT_FDCWD, (long)"/etc/passwd", O_RDONLY, 0, 0); }
static void x32(void) { creates(SYS_openat | 0x40000000); }
/* The fifth argument, which the kernel ignores, tells the test where the call is. */
static void removes(void) { raw(SYS_unlink, (long)path, 0, 0, 0, (long)gadget()); }
static void connects(void) { raw(SYS_socket, AF_INET, SOCK_STREAM, 0, 0, 0); }
static void kills(void) { raw(SYS_kill, pid, SIGKILL, 0, 0, 0); }
static void kills_thread(void) { raw(SYS_tgkill, pid, pid, SIGKILL, 0, 0); }
static void traces(void) { raw(SYS_ptrace, PTRACE_ATTACH, pid, 0, 0, 0); }
static void mounts(void) { raw(SYS_mount, (long)"none", (long)"/mnt", (long)"tmpfs", 0, 0); }
static void attaches(void) { raw(SYS_shmat, segment, 0, 0, 0, 0); }
static void removes_segment(void) { raw(SYS_shmctl, segment, IPC_RMID, 0, 0, 0); }
static void rings(void) { raw(SYS_io_uring_setup, 8, (long)low, 0, 0, 0); }
static void unshares(void) { raw(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0); }
static void tells_all(void) { raw(SYS_clone, CLONE_PARENT | SIGKILL, 0, 0, 0, 0); }
static void limits(void) { raw(SYS_prlimit64, pid, 7, (long)low, 0, 0); }
static void truncates(void) { raw(SYS_ftruncate, 1, 0, 0, 0, 0); }
static void types(void) { raw(SYS_ioctl, 1, 0x5412 /* TIOCSTI */, (long)"x", 0, 0); }
static void forks_unseen(void) { raw(SYS_clone3, (long)low, 64, 0, 0, 0); }

static void writes_memory(void)
{
	struct iovec from = {low, 8}, to = {(void *)0x400000, 8};
	raw(SYS_process_vm_writev, pid, (long)&from, 1, (long)&to, 1);
}

static void executes(void)
{
	char *arguments[] = {"/bin/sh", "-c", "echo harm >\"$0\"", (char *)path, NULL};
	raw(SYS_execve, (long)arguments[0], (long)arguments, 0, 0, 0);
}

/* Uses the descriptor of what replayed processes may execute, with a path that leads elsewhere. */
static void executes_beside(void)
{
	char *arguments[] = {"/bin/sh", "-c", "echo harm >\"$0\"", (char *)path, NULL};
	for (long descriptor = 3; descriptor < 64; descriptor++)
		raw(SYS_execveat, descriptor, (long)"/bin/sh", (long)arguments, 0, AT_EMPTY_PATH);
}

/* Uses its own code, and turns off interception of its calls. */
static void *own_code(const char *bytes)
{
	unsigned char *code = low + 0xf000;
	memcpy(code, bytes, strlen(bytes));
	raw(SYS_prctl, 59 /* PR_SET_SYSCALL_USER_DISPATCH */, 0, 0, 0, 0);
	return code;
}

static void by_interrupt(void)
{
	long result = 5; /* open, for 32 bits */
	strcpy((char *)low, path);
	__asm__ volatile("call *%1"
			 : "+a"(result)
			 : "S"(own_code("\xcd\x80\xc3")), "b"(low), "c"(O_CREAT | O_WRONLY), "d"(0600)
			 : "memory", "r8", "r9", "r10", "r11");
}

/* The stack is in the lowest 4 GB, where the kernel looks for the other arguments. */
static void by_sysenter(void)
{
	strcpy((char *)low, path);
	__asm__ volatile("mov %4, %%rsp\n\tmov %%rsp, %%rbp\n\tjmp *%1"
			 :
			 : "a"(5L), "S"(own_code("\x0f\x34")), "b"(low), "c"(O_CREAT | O_WRONLY),
			 "r"(low + 0x8000), "d"(0600)
			 : "memory");
}

/* Jumps into the kernel's own page at a fixed address. */
static void by_vsyscall(void)
{
	((long (*)(void *, void *))0xffffffffff600000UL)(low, NULL);
	kills();
}

static void by_itself(void)
{
	long result = SYS_unlink;
	__asm__ volatile("call *%1"
			 : "+a"(result)
			 : "S"(own_code("\x0f\x05\xc3")), "D"(path)
			 : "rcx", "r11", "memory");
}

/* Tries every instruction that makes a call, whatever follows it. */
static void by_all(void)
{
	for (unsigned char *at = RUNTIME_TEXT; at < RUNTIME_TEXT + RUNTIME_SEARCHED; at++) {
		if (at[0] != 0x0f || at[1] != 0x05)
			continue;
		long result = SYS_unlink;
		__asm__ volatile("call *%1"
				 : "+a"(result)
				 : "r"(at), "D"(path)
				 : "rcx", "r11", "memory");
	}
}

/* Returns through a signal frame to an instruction that makes a call. */
static void by_sigreturn(void)
{
	ucontext_t frame;
	memset(&frame, 0, sizeof frame);
	frame.uc_mcontext.gregs[REG_RIP] = (long)gadget();
	frame.uc_mcontext.gregs[REG_RSP] = (long)(low + 0x8000);
	frame.uc_mcontext.gregs[REG_RAX] = SYS_unlink;
	frame.uc_mcontext.gregs[REG_RDI] = (long)path;
	frame.uc_mcontext.gregs[REG_EFL] = 0x202;
	frame.uc_mcontext.gregs[REG_CSGSFS] = 0x002b000000000033;
	__asm__ volatile("mov %0, %%rsp\n\tjmp *%1"
			 :
			 : "r"(&frame), "r"(gadget()), "a"((long)SYS_rt_sigreturn)
			 : "memory");
}

static void few_descriptors(void)
{
	int count = 0;
	for (long descriptor = 3; descriptor < 1024; descriptor++)
		count += raw(SYS_close, descriptor, 0, 0, 0, 0) == 0;
	if (count == 1)
		kills();
}

/* Tells the supervisor that other processes belong to the replay, and makes calls that are not
 * recorded. */
static void names_others(void)
{
	unsigned *word = (unsigned *)0x550020000000UL, own = (unsigned)raw(SYS_getpid, 0, 0, 0, 0, 0);
	unsigned char present[1];
	for (long page = 0; raw(SYS_mincore, (long)word, 4096, (long)present, 0, 0) == 0; page++)
		for (int i = 0; i < 1024; i++, word++)
			if (*word == own)
				*word = (unsigned)pid;
	getppid();
}

static const struct {
	const char *name;
	void (*make)(void);
} attacks[] = {{"open_write", open_write}, {"open_read", open_read}, {"x32", x32},
	{"removes", removes}, {"connects", connects}, {"kills", kills},
	{"kills_thread", kills_thread}, {"traces", traces}, {"mounts", mounts},
	{"attaches", attaches}, {"removes_segment", removes_segment}, {"rings", rings},
	{"unshares", unshares}, {"tells_all", tells_all}, {"limits", limits},
	{"truncates", truncates}, {"types", types}, {"forks_unseen", forks_unseen},
	{"writes_memory", writes_memory}, {"executes", executes},
	{"executes_beside", executes_beside}, {"by_interrupt", by_interrupt},
	{"by_sysenter", by_sysenter}, {"by_vsyscall", by_vsyscall}, {"by_itself", by_itself},
	{"by_all", by_all}, {"by_sigreturn", by_sigreturn},
	{"few_descriptors", few_descriptors}, {"names_others", names_others}};

static const char *wanted;

static void *attack(void *unused)
{
	(void)unused;
	for (unsigned i = 0; i < sizeof attacks / sizeof attacks[0]; i++)
		if (!strcmp(attacks[i].name, wanted) && is_replay())
			attacks[i].make();
	return NULL;
}

int main(int count, char **arguments)
{
	if (count < 5 || !gadget())
		return 2;
	wanted = arguments[1], path = arguments[2];
	pid = atol(arguments[3]), segment = atol(arguments[4]);
	low = mmap(NULL, 0x10000, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT,
		-1, 0);
	const char *where = count > 5 ? arguments[5] : "";
	pthread_t thread;
	if (!strcmp(where, "fork")) {
		if (fork() == 0) {
			attack(NULL);
			_exit(0);
		}
		int status; /* replay waits for a child whose end the program has seen */
		wait(&status);
	} else if (!strcmp(where, "thread")) {
		pthread_create(&thread, NULL, attack, NULL);
		pthread_join(thread, NULL);
	} else if (!strcmp(where, "exec")) {
		arguments[5] = NULL;
		execv("/proc/self/exe", arguments);
	} else
		attack(NULL);
	puts("went on");
	return 0;
}
