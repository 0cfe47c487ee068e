/* Threads make long calls that need no turn, beside threads whose long calls keep others from a
 * turn. The output depends on the order of all threads. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MAPPERS = 3, WRITERS = 3, MAPPED = 24, WRITTEN = 1500, BYTES = 16 << 20 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t order = 1;
static int nowhere;
static char text[1 << 16];

static void require(int is_good)
{
    if (!is_good)
        abort();
}

static void note(uint64_t what)
{
    pthread_mutex_lock(&mutex);
    order = order * 1000003 + what;
    pthread_mutex_unlock(&mutex);
}

/* The kernel clears all of it, while others wait to change the process's memory. */
static void *map(void *argument)
{
    for (int i = 0; i < MAPPED; i++) {
        void *place = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        require(place != MAP_FAILED);
        note((uintptr_t)place + (uintptr_t)argument);
        require(munmap(place, BYTES) == 0);
    }
    return NULL;
}

static void *write_much(void *argument)
{
    for (int i = 0; i < WRITTEN; i++) {
        require(syscall(SYS_write, nowhere, text, sizeof text) == sizeof text);
        if (i % 16 == 0)
            note((uintptr_t)argument);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[MAPPERS + WRITERS];
    nowhere = open("/dev/null", O_WRONLY);
    require(nowhere >= 0);
    for (uintptr_t i = 0; i < MAPPERS + WRITERS; i++)
        require(pthread_create(&threads[i], NULL, i < MAPPERS ? map : write_much, (void *)i) == 0);
    for (int i = 0; i < MAPPERS + WRITERS; i++)
        require(pthread_join(threads[i], NULL) == 0);
    printf("%llx\n", (unsigned long long)order);
    return 0;
}
