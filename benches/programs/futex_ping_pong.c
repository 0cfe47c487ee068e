/* Two threads pass a word to each other through futexes, as often as the argument says: the cost of
 * a hand-over. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic uint32_t turn;
static long round_count;

/* Waits for `mine` and hands over to `other`. Really sleeps each time, unless the word has changed
 * already. */
static void play(uint32_t mine, uint32_t other)
{
    for (long index = 0; index < round_count; index++) {
        while (atomic_load(&turn) != mine)
            syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, other, NULL, NULL, 0);
        atomic_store(&turn, other);
        syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
}

static void *partner(void *unused)
{
    (void)unused;
    play(1, 0);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    round_count = argc > 1 ? atol(argv[1]) : 20000;
    if (pthread_create(&thread, NULL, partner, NULL) != 0) {
        perror("pthread_create");
        return 1;
    }
    play(0, 1);
    pthread_join(thread, NULL);
    printf("%ld rounds\n", round_count);
    return 0;
}
