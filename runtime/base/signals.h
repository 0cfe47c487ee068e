/* Signal numbers, and sets of signals in the kernel's layout. */
#ifndef RETAKE_BASE_SIGNALS_H
#define RETAKE_BASE_SIGNALS_H

#define SI_KERNEL 0x80
#define SIGNAL_BIT(n) (1UL << ((n)-1))
enum {
	SIGILL = 4,
	SIGTRAP = 5,
	SIGABRT = 6,
	SIGBUS = 7,
	SIGFPE = 8,
	SIGKILL = 9,
	SIGSEGV = 11,
	SIGCHLD = 17,
	SIGCONT = 18,
	SIGSTOP = 19,
	SIGTSTP = 20,
	SIGTTIN = 21,
	SIGTTOU = 22,
	SIGURG = 23,
	SIGWINCH = 28,
	SIGSYS = 31
};
#define SYNCHRONOUS                                                                           \
	(SIGNAL_BIT(SIGSEGV) | SIGNAL_BIT(SIGBUS) | SIGNAL_BIT(SIGILL) | SIGNAL_BIT(SIGFPE) | \
		SIGNAL_BIT(SIGTRAP) | SIGNAL_BIT(SIGSYS))

#endif
