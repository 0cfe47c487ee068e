/* Memory of many kinds, a timer, rounding of floating-point numbers: images are taken until the
 * file `enough` exists. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <fenv.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#define BIG (256UL << 20)
#define FILE_BYTES 200000UL

static char zeros[1 << 20];
static int numbers[5000] = {1, 2, 3};
static volatile int alarms;

static void handler(int number)
{
	char used[2000];
	memset(used, ++alarms, sizeof used);
	usleep(500);
	numbers[alarms % 5000] += used[7] + number;
}

static void prepare_signals(void)
{
	stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK | SA_RESTART};
	struct itimerval timer = {{0, 9000}, {0, 9000}};
	sigaltstack(&stack, NULL);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
}

/* A deleted file, part of which is zeros in memory. */
static char *private_file(void)
{
	static const char text[8] = "abcdefg";
	int file = open("data", O_RDWR | O_CREAT | O_TRUNC, 0600);
	for (unsigned long i = 0; i < FILE_BYTES; i += sizeof text)
		if (write(file, text, sizeof text) != sizeof text)
			_exit(9);
	char *shown = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
	memset(shown + 8192, 0, 8192);
	unlink("data");
	return shown;
}

int main(void)
{
	prepare_signals();
	char *big = mmap(NULL, BIG, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *guarded = mmap(NULL, 3 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(guarded + 4096, 4096, PROT_READ | PROT_WRITE);
	char *shown = private_file();
	char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(code, "\x48\x8d\x04\x3f\xc3", 5); /* lea (%rdi,%rdi), %rax; ret */
	fesetround(FE_DOWNWARD);
	unsigned long sum = 0, rounds = 0;
	for (volatile double third = 1; access("enough", F_OK) && rounds < 1000000; rounds++) {
		unsigned long i = rounds;
		third = third / 3 + i;
		big[i * 7919 * 4096 % BIG] = (char)i;
		guarded[4096 + i % 4096] = (char)i;
		zeros[i * 13 % sizeof zeros] = (char)i;
		sum += ((long (*)(long))code)(i) + shown[i * 4093 % FILE_BYTES] +
		       (unsigned long)third % 1000;
		for (volatile int wait = 0; wait < 20000; wait++)
			;
		if (i % 100 == 0) {
			printf("%lu %lu\n", i, sum);
			fflush(stdout);
		}
		sbrk(16);
	}
	for (unsigned long i = 0; i < BIG; i += 4096)
		sum += big[i];
	for (unsigned long i = 0; i < FILE_BYTES; i++)
		sum += shown[i];
	printf("end %lu %lu rounding %d\n", rounds, sum, fegetround());
	return 3;
}
