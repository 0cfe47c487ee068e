/* Two threads add to one counter without a lock, and both print what they saw: only a replay prints
 * the same twice. The argument is the number of additions in each thread. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static volatile long counter;
static long addition_count;

static void *race(void *seen)
{
    for (long index = 0; index < addition_count; index++)
        counter = counter + 1;
    *(long *)seen = counter;
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[2];
    long seen[2];
    addition_count = argc > 1 ? atol(argv[1]) : 100000000;
    for (int index = 0; index < 2; index++) {
        if (pthread_create(&threads[index], NULL, race, &seen[index]) != 0) {
            perror("pthread_create");
            return 1;
        }
    }
    for (int index = 0; index < 2; index++)
        pthread_join(threads[index], NULL);
    printf("%ld %ld %ld\n", counter, seen[0], seen[1]);
    return 0;
}
