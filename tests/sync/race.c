/* One thread counts, another reads the counter without synchronisation: only the serial policy can
 * replay what it sees. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

static volatile uint64_t counter;
static volatile int counted;

static void *count(void *unused)
{
    for (int i = 0; i < 30000000; i++)
        counter++;
    counted = 1;
    return unused;
}

int main(void)
{
    pthread_t thread;
    uint64_t seen = 1;
    pthread_create(&thread, NULL, count, NULL);
    while (!counted)
        seen = (seen ^ counter) * 0x9e3779b97f4a7c15;
    pthread_join(thread, NULL);
    /* Always prints as many digits: fewer would take another path through the library, and then an
     * earlier call than the writing one would differ. */
    printf("%llx\n", (unsigned long long)(seen | 1ull << 63));
    return 0;
}
