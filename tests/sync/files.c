/* Threads open, read and close files all the time, and get each other's descriptors, as the kernel
 * assigns the lowest free number. Some are copies of the output. The output depends on the order of
 * all threads. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { READERS = 4, ROUNDS = 600, PRINTED = 20 };

static uint64_t seen[READERS];

static void require(int is_good)
{
    if (!is_good)
        abort();
}

static void see(uintptr_t me, uint64_t what) { seen[me] = seen[me] * 1000003 + what; }

static void *read_files(void *argument)
{
    static const char *const paths[] = {"/dev/zero", "/", "/dev/null", "/none/such"};
    uintptr_t me = (uintptr_t)argument;
    for (int i = 0; i < ROUNDS; i++) {
        char byte = 1;
        int file = open(paths[i % 4], O_RDONLY);
        see(me, (uint64_t)file);
        see(me, (uint64_t)read(file, &byte, 1) + (uint64_t)byte);
        require(close(file) == (file < 0 ? -1 : 0));
    }
    return NULL;
}

static void *print(void *unused)
{
    for (int i = 0; i < PRINTED; i++) {
        int output = dup(1), nowhere = open("/dev/null", O_WRONLY);
        require(output >= 0 && nowhere >= 0);
        require(write(output, "shown\n", 6) == 6);
        require(close(output) == 0);
        require(write(nowhere, "hidden\n", 7) == 7);
        require(close(nowhere) == 0);
    }
    return unused;
}

int main(void)
{
    pthread_t readers[READERS], printer;
    uint64_t order = 0;
    require(pthread_create(&printer, NULL, print, NULL) == 0);
    for (uintptr_t i = 0; i < READERS; i++)
        require(pthread_create(&readers[i], NULL, read_files, (void *)i) == 0);
    for (int i = 0; i < READERS; i++) {
        require(pthread_join(readers[i], NULL) == 0);
        order = order * 1000003 + seen[i];
    }
    require(pthread_join(printer, NULL) == 0);
    printf("%llx\n", (unsigned long long)order);
    return 0;
}
