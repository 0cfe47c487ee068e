/* Tickets drawn by atomic instructions, without a lock. The owners are printed. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

enum { THREADS = 4, ROUNDS = 20000 };

static atomic_ulong tickets, bits;
static _Atomic(uint64_t) last;

static void *draw(void *argument)
{
    uint64_t who = (uint64_t)(uintptr_t)argument, seen = 0;
    for (int round = 0; round < ROUNDS; round++) {
        seen = (seen ^ atomic_fetch_add(&tickets, 1)) * 0x9e3779b97f4a7c15;
        seen ^= atomic_exchange(&last, seen);
        if (round % 100 == 0)
            seen += atomic_fetch_xor(&bits, 1UL << (who * 8 + (uint64_t)round / 100 % 8));
    }
    return (void *)(uintptr_t)seen;
}

int main(void)
{
    pthread_t threads[THREADS];
    for (uintptr_t who = 0; who < THREADS; who++)
        pthread_create(&threads[who], NULL, draw, (void *)who);
    for (int who = 0; who < THREADS; who++) {
        void *seen;
        pthread_join(threads[who], &seen);
        printf("%016llx\n", (unsigned long long)(uintptr_t)seen);
    }
    printf("%lu %016lx\n", (unsigned long)tickets, (unsigned long)bits);
    return 0;
}
