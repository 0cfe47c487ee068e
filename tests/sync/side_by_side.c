/* Two threads answer each other through plain memory, without a call. In parallel an answer comes
 * at once; in turns each answer takes a time slice. */
#include <pthread.h>
#include <stdio.h>

enum { ROUNDS = 40000 };

static volatile int asked, answered;

static void *answer(void *unused)
{
    (void)unused;
    for (int round = 1; round <= ROUNDS; round++) {
        while (asked != round)
            ;
        answered = round;
    }
    return NULL;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, answer, NULL);
    for (int round = 1; round <= ROUNDS; round++) {
        asked = round;
        while (answered != round)
            ;
    }
    pthread_join(thread, NULL);
    printf("%d answers\n", answered);
    return 0;
}
