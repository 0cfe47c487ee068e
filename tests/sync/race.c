/* Two threads race on a plain counter: no policy but the serial one can replay that. */
#include <pthread.h>
#include <stdio.h>

static volatile long counter;

static void *count(void *unused)
{
    for (int i = 0; i < 3000000; i++)
        counter++;
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, count, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("%ld\n", counter);
    return 0;
}
