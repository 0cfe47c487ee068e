/* Processes that share memory of every kind: images of all of them are taken until the file
 * `enough` exists. Two work under a lock in that memory, one with a second thread and one with
 * children; one waits for a signal and does nothing else. All must agree in the end, wherever
 * replay begins. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS 20000

struct shared {
	pthread_mutex_t lock;
	volatile int done, ended;
	volatile long sum, calls;
	volatile long words[WORDS];
};

static struct shared *shared;
/* A file, a System V segment that is removed, and a file without a name or a descriptor. */
static volatile long *kinds[3];
static volatile long *own;
static const char *name;
static char brief_name[40];

/* Takes the words of all processes, and its own, one step further. */
static void step(long seed)
{
	pthread_mutex_lock(&shared->lock);
	long at = (unsigned long)(shared->sum * 31 + seed) % WORDS;
	shared->words[at] += own[at % 1000] + 1;
	own[seed % 1000] += shared->words[at];
	for (int i = 0; i < 3; i++)
		kinds[i][at % 512] += i + 1;
	shared->sum += at;
	shared->calls++;
	pthread_mutex_unlock(&shared->lock);
}

static volatile long *map(int file, long bytes)
{
	int flags = MAP_SHARED | (file < 0 ? MAP_ANONYMOUS : 0);
	void *at = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, flags, file, 0);
	if (at == MAP_FAILED)
		exit(9);
	return at;
}

/* A file in memory that mostly no process has mapped. */
static void look_briefly(void)
{
	int file = shm_open(brief_name, O_RDWR, 0600);
	volatile long *at = map(file, 4096);
	close(file);
	at[0]++;
	at[1 + at[0] % 511] = shared->calls;
	munmap((void *)at, 4096);
}

static void *steps(void *argument)
{
	for (long i = 0; !shared->done; i++) {
		step(7 * i);
		usleep(700);
	}
	return argument;
}

static unsigned long hash_of(volatile long *words, int count)
{
	unsigned long hash = 0;
	for (int i = 0; i < count; i++)
		hash = hash * 31 + (unsigned long)words[i];
	return hash;
}

static void tell_end(void)
{
	printf("%s ends: %lx\n", name, hash_of(own, 1000));
	fflush(stdout);
	shared->ended++;
	exit(0);
}

static void with_thread(void)
{
	pthread_t thread;
	name = "threads";
	pthread_create(&thread, NULL, steps, NULL);
	for (long i = 0; !shared->done; i++) {
		step(i);
		usleep(500);
	}
	pthread_join(thread, NULL);
	tell_end();
}

static void with_children(void)
{
	name = "children";
	for (long i = 0; !shared->done; i++) {
		step(3 * i);
		if (i % 50 == 0)
			look_briefly();
		if (i % 20 == 0) {
			int child = fork();
			if (!child) {
				step(i);
				_exit(3);
			}
			int status;
			if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 3)
				abort();
		}
		usleep(600);
	}
	tell_end();
}

static void on_signal(int number) { (void)number; }

static void that_waits(void)
{
	sigset_t set;
	name = "waits";
	own[5] = 99;
	signal(SIGUSR1, on_signal);
	sigfillset(&set);
	sigdelset(&set, SIGUSR1);
	sigsuspend(&set);
	step(1);
	tell_end();
}

static int start(void (*run)(void))
{
	int child = fork();
	if (child)
		return child;
	run();
	return 0;
}

static void make_shared(void)
{
	pthread_mutexattr_t attributes;
	snprintf(brief_name, sizeof brief_name, "/retake-test-%d", getpid());
	int file = open("shared", O_RDWR | O_CREAT | O_TRUNC, 0600);
	int nameless = memfd_create("nameless", 0);
	int brief = shm_open(brief_name, O_RDWR | O_CREAT | O_TRUNC, 0600);
	int segment = shmget(IPC_PRIVATE, 4096, 0600);
	if (ftruncate(file, 4096) || ftruncate(nameless, 4096) || ftruncate(brief, 4096))
		exit(9);
	shared = (struct shared *)map(-1, sizeof *shared);
	kinds[0] = map(file, 4096);
	kinds[1] = shmat(segment, NULL, 0);
	kinds[2] = map(nameless, 4096);
	shmctl(segment, IPC_RMID, NULL);
	close(nameless);
	close(brief);
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&shared->lock, &attributes);
}

int main(void)
{
	sigset_t set;
	make_shared();
	own = calloc(1000, sizeof *own);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	int waits = start(that_waits);
	start(with_thread);
	start(with_children);
	for (int i = 0; access("enough", F_OK) && i < 100000; i++) {
		step(11 * i);
		if (i % 40 == 0)
			printf("%ld\n", shared->calls), fflush(stdout);
		usleep(1000);
	}
	shared->done = 1;
	kill(waits, SIGUSR1);
	while (wait(NULL) > 0)
		;
	int brief = shm_open(brief_name, O_RDWR, 0600);
	unsigned long hash = hash_of(map(brief, 4096), 512) + hash_of(shared->words, WORDS);
	for (int i = 0; i < 3; i++)
		hash = hash * 31 + hash_of(kinds[i], 512);
	shm_unlink(brief_name);
	printf("all end: %d, %lx\n", shared->ended, hash);
	return 7;
}
