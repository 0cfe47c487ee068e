/* Work whose size can be chosen, for how cost grows with it:
 *
 *     growth threads N     N threads share 400,000 calls, and a lock between every two
 *     growth processes N   N processes that live at the same time share 400,000 calls
 *     growth rate N        100,000 calls with N additions between two of them
 *     growth mappings N    N mappings that cannot be merged, then 100,000 calls
 *     growth calls N       N calls
 *     growth payload N     N MB read by 64 KB
 *
 * It prints a line before it begins and one when it is done. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SHARED_CALLS = 400000, FEWER_CALLS = 100000, PIECE = 65536, PIECES = 1024, MOST_THREADS = 256 };

static long size;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long sum;

static void require(int is_good, const char *what)
{
    if (!is_good) {
        perror(what);
        exit(1);
    }
}

static void call_often(long count)
{
    for (long index = 0; index < count; index++)
        syscall(SYS_getppid);
}

static void *call_and_lock(void *unused)
{
    for (long index = 0; index < SHARED_CALLS / size; index++) {
        syscall(SYS_getppid);
        pthread_mutex_lock(&lock);
        sum++;
        pthread_mutex_unlock(&lock);
    }
    return unused;
}

static void grow_threads(void)
{
    pthread_t threads[MOST_THREADS];
    require(size <= MOST_THREADS, "so many threads");
    for (long index = 0; index < size; index++)
        require(pthread_create(&threads[index], NULL, call_and_lock, NULL) == 0, "pthread_create");
    for (long index = 0; index < size; index++)
        pthread_join(threads[index], NULL);
}

static void grow_processes(void)
{
    int gate[2];
    char none;
    require(pipe2(gate, O_CLOEXEC) == 0, "pipe");
    for (long index = 0; index < size; index++) {
        pid_t process = fork();
        require(process >= 0, "fork");
        if (process == 0) {
            close(gate[1]);
            /* ends when the parent has closed the other end: all processes exist */
            require(read(gate[0], &none, 1) == 0, "read");
            call_often(SHARED_CALLS / size);
            _exit(0);
        }
    }
    close(gate[1]);
    for (long index = 0; index < size; index++) {
        int status;
        require(wait(&status) > 0 && status == 0, "a child");
    }
}

static void grow_rate(void)
{
    volatile uint64_t counter = 0;
    for (long index = 0; index < FEWER_CALLS; index++) {
        syscall(SYS_getppid);
        for (long addition = 0; addition < size; addition++)
            counter = counter + 1;
    }
}

static void grow_mappings(void)
{
    for (long index = 0; index < size; index++) {
        int protection = index % 2 ? PROT_READ | PROT_WRITE : PROT_READ;
        require(mmap(NULL, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED, "mmap");
    }
    call_often(FEWER_CALLS);
}

static void grow_payload(void)
{
    static char piece[PIECE];
    uint64_t state = 88172645463325252ull;
    int file = memfd_create("file", MFD_CLOEXEC);
    require(file >= 0, "memfd_create");
    for (int index = 0; index < PIECES; index++) {
        for (size_t place = 0; place < PIECE; place += 8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            memcpy(piece + place, &state, 8);
        }
        require(pwrite(file, piece, PIECE, (off_t)index * PIECE) == PIECE, "pwrite");
    }
    for (long index = 0; index < size * 16; index++)
        require(pread(file, piece, PIECE, index % PIECES * PIECE) == PIECE, "pread");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*work)(void);
    } axes[] = {
        {"threads", grow_threads}, {"processes", grow_processes}, {"rate", grow_rate}, {"mappings", grow_mappings}, {"payload", grow_payload},
    };
    size = argc == 3 ? atol(argv[2]) : -1;
    if (size < 0) {
        fprintf(stderr, "growth threads|processes|rate|mappings|calls|payload N\n");
        return 2;
    }
    printf("begin\n");
    fflush(stdout);
    if (strcmp(argv[1], "calls") == 0)
        call_often(size);
    for (size_t index = 0; index < sizeof axes / sizeof *axes; index++)
        if (strcmp(argv[1], axes[index].name) == 0)
            axes[index].work();
    printf("%s %ld\n", argv[1], size);
    return 0;
}
