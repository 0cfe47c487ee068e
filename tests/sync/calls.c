/* Threads that synchronise by system calls alone. One thread writes to memory before a call, and
 * another reads it after a call that tells it so: by a pipe, a socket, or an event counter. Some
 * threads exit at once. Each of these calls is a cancellation point, where the C library checks for
 * a cancellation. The output depends on the order of all threads. */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WORKERS = 4, ROUNDS = 400, SHORT = 24 };

static int asked[2], answered[WORKERS][2], counters[WORKERS];
static uint64_t data[WORKERS + SHORT], order = 1;

static void require(int is_good)
{
    if (!is_good)
        abort();
}

static void wait_for_answer(int me, int round)
{
    uint64_t count;
    char byte;
    struct pollfd wanted = {.fd = answered[me][0], .events = POLLIN};
    if (round % 3 == 0)
        require(read(counters[me], &count, sizeof count) == sizeof count);
    else if (round % 3 == 1)
        require(read(answered[me][0], &byte, 1) == 1);
    else
        require(poll(&wanted, 1, -1) == 1 &&
            recv(answered[me][0], &byte, 1, MSG_DONTWAIT) == 1);
}

static void answer(int worker, int round)
{
    uint64_t one = 1;
    if (round % 3 == 0)
        require(write(counters[worker], &one, sizeof one) == sizeof one);
    else
        require(send(answered[worker][1], "", 1, 0) == 1);
}

static void *work(void *argument)
{
    char me = (char)(intptr_t)argument;
    for (int round = 0; round < ROUNDS; round++) {
        data[(int)me] = data[(int)me] * 31 + (uint64_t)round;
        require(write(asked[1], &me, 1) == 1);
        wait_for_answer(me, round);
        data[(int)me] += 1;
    }
    return NULL;
}

static void *end_at_once(void *argument)
{
    char me = (char)(intptr_t)argument;
    data[(int)me] = (uint64_t)me * 7;
    require(write(asked[1], &me, 1) == 1);
    return NULL;
}

int main(void)
{
    pthread_t workers[WORKERS], others[SHORT];
    int rounds[WORKERS + SHORT] = {0}, made = 0;
    require(pipe(asked) == 0);
    for (intptr_t i = 0; i < WORKERS; i++) {
        require(socketpair(AF_UNIX, SOCK_STREAM, 0, answered[i]) == 0);
        require((counters[i] = eventfd(0, 0)) >= 0);
        require(pthread_create(&workers[i], NULL, work, (void *)i) == 0);
    }
    for (int i = 0; i < WORKERS * ROUNDS + SHORT; i++) {
        char who;
        if (i % 50 == 0 && made < SHORT) {
            require(pthread_create(&others[made], NULL, end_at_once,
                        (void *)(intptr_t)(WORKERS + made)) == 0);
            made++;
        }
        require(read(asked[0], &who, 1) == 1);
        order = order * 1000003 + (uint64_t)who + data[(int)who];
        data[(int)who] ^= order;
        if (who < WORKERS)
            answer(who, rounds[(int)who]++);
    }
    for (int i = 0; i < WORKERS; i++)
        require(pthread_join(workers[i], NULL) == 0);
    for (int i = 0; i < made; i++)
        require(pthread_join(others[i], NULL) == 0);
    printf("%llx\n", (unsigned long long)order);
    return 0;
}
