/* Makes one process after the other, each with threads that do a little work under a lock:
 * forks_of_threads PROCESSES THREADS. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_THREADS = 64, ROUNDS = 1000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long sum;

static void *work(void *unused)
{
    (void)unused;
    for (int round = 0; round < ROUNDS; round++) {
        pthread_mutex_lock(&lock);
        sum = sum * 31 % 1000003 + 1;
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static int child(int thread_count)
{
    pthread_t threads[MOST_THREADS];
    for (int index = 0; index < thread_count; index++)
        if (pthread_create(&threads[index], NULL, work, NULL) != 0)
            return 255;
    for (int index = 0; index < thread_count; index++)
        pthread_join(threads[index], NULL);
    return (int)(sum % 200);
}

int main(int argc, char **argv)
{
    int process_count = argc == 3 ? atoi(argv[1]) : 0, thread_count = argc == 3 ? atoi(argv[2]) : 0;
    long whole = 0;
    if (process_count < 1 || thread_count < 1 || thread_count > MOST_THREADS) {
        fprintf(stderr, "forks_of_threads PROCESSES THREADS\n");
        return 2;
    }
    for (int index = 0; index < process_count; index++) {
        pid_t process = fork();
        int status;
        if (process < 0) {
            perror("fork");
            return 1;
        }
        if (process == 0)
            _exit(child(thread_count));
        if (waitpid(process, &status, 0) != process || !WIFEXITED(status) || WEXITSTATUS(status) == 255)
            return 1;
        whole += WEXITSTATUS(status);
    }
    printf("%d processes, %ld\n", process_count, whole);
    return 0;
}
