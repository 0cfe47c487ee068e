/* Compares ways for threads to log, ordered and unordered, each with one thread that drains: events
 * a second.
 *
 *     lock      one queue for all, under a lock
 *     counter   a ring for each thread, ordered by one counter that all increment
 *     stamp     a ring for each thread, ordered by the time-stamp counter
 *     object    a ring for each thread, ordered by a counter in the object of the operation
 *     alone     a ring for each thread, unordered: for threads that take turns, with logged turns
 *
 * ring_designs PRODUCERS SECONDS prints a line for each: its name, million events a second of all
 * producers, and the share of attempts that found their ring full. Events are 64 bytes. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

enum { MOST_PRODUCERS = 16, RING = 1 << 14, OBJECTS = 1024 };

struct event {
    uint64_t order, words[7];
};

struct ring {
    _Alignas(64) _Atomic uint64_t head;
    _Alignas(64) _Atomic uint64_t tail;
    _Alignas(64) uint64_t seen_tail;
    struct event *events;
};

struct object {
    _Alignas(64) _Atomic uint64_t order;
};

enum design { LOCK, COUNTER, STAMP, OBJECT, ALONE, DESIGNS };

static const char *const names[DESIGNS] = {"lock", "counter", "stamp", "object", "alone"};
static enum design design;
static int producer_count;
static struct ring rings[MOST_PRODUCERS];
static struct object objects[OBJECTS];
static _Alignas(64) _Atomic uint64_t shared_counter;
static _Alignas(64) atomic_flag queue_lock = ATOMIC_FLAG_INIT;
static atomic_int is_over;
static uint64_t written[MOST_PRODUCERS * 8], full[MOST_PRODUCERS * 8];
static volatile uint64_t drained_sum;

static uint64_t next_order(uint64_t number)
{
    unsigned processor;
    switch (design) {
    case COUNTER:
        return atomic_fetch_add_explicit(&shared_counter, 1, memory_order_relaxed);
    case STAMP:
        return __rdtscp(&processor);
    case OBJECT:
        /* As in programs: mostly the thread's own objects, now and then a shared one. */
        return atomic_fetch_add_explicit(&objects[number % 16 == 0 ? 0 : number % OBJECTS].order, 1, memory_order_relaxed);
    default:
        return number;
    }
}

/* Returns whether there was room. Reads the consumer's place only when the ring seems full. */
static int append(struct ring *ring, uint64_t order)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    if (head - ring->seen_tail >= RING) {
        ring->seen_tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
        if (head - ring->seen_tail >= RING)
            return 0;
    }
    struct event *event = &ring->events[head % RING];
    event->order = order;
    for (int word = 0; word < 7; word++)
        event->words[word] = head;
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
    return 1;
}

static int append_locked(void)
{
    while (atomic_flag_test_and_set_explicit(&queue_lock, memory_order_acquire))
        _mm_pause();
    int has_room = append(&rings[0], 0);
    atomic_flag_clear_explicit(&queue_lock, memory_order_release);
    return has_room;
}

static void *produce(void *argument)
{
    long number = (long)argument;
    uint64_t count = 0, waits = 0, spread = (uint64_t)number * (OBJECTS / MOST_PRODUCERS);
    while (!atomic_load_explicit(&is_over, memory_order_relaxed)) {
        for (int batch = 0; batch < 256; batch++) {
            int has_room = design == LOCK ? append_locked() : append(&rings[number], next_order(spread + count % 61));
            count += (uint64_t)has_room;
            waits += (uint64_t)!has_room;
            if (!has_room)
                usleep(20);
        }
    }
    written[number * 8] = count;
    full[number * 8] = waits;
    return NULL;
}

/* The consumer works in batches: it sleeps while the rings are nearly empty. */
static void *drain(void *unused)
{
    (void)unused;
    while (!atomic_load_explicit(&is_over, memory_order_relaxed)) {
        uint64_t taken = 0;
        for (int index = 0; index < producer_count; index++) {
            struct ring *ring = &rings[index];
            uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
            uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
            for (uint64_t place = tail; place < head; place++)
                drained_sum += ring->events[place % RING].words[0];
            atomic_store_explicit(&ring->tail, head, memory_order_release);
            taken += head - tail;
        }
        if (taken < RING / 4)
            usleep(50);
    }
    return NULL;
}

static void measure(double seconds)
{
    pthread_t producers[MOST_PRODUCERS], drainer;
    atomic_store(&is_over, 0);
    for (int index = 0; index < MOST_PRODUCERS; index++) {
        atomic_store(&rings[index].head, 0);
        atomic_store(&rings[index].tail, 0);
        rings[index].seen_tail = 0;
    }
    pthread_create(&drainer, NULL, drain, NULL);
    for (long index = 0; index < producer_count; index++)
        pthread_create(&producers[index], NULL, produce, (void *)index);
    struct timespec length = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&length, NULL);
    atomic_store(&is_over, 1);
    double events = 0, waits = 0;
    for (int index = 0; index < producer_count; index++) {
        pthread_join(producers[index], NULL);
        events += (double)written[index * 8];
        waits += (double)full[index * 8];
    }
    pthread_join(drainer, NULL);
    printf("%s %.2f %.4f\n", names[design], events / seconds / 1e6, waits / (events + waits));
}

int main(int argc, char **argv)
{
    producer_count = argc == 3 ? atoi(argv[1]) : 0;
    double seconds = argc == 3 ? atof(argv[2]) : 0;
    if (producer_count < 1 || producer_count > MOST_PRODUCERS || seconds <= 0 || seconds > 60) {
        fprintf(stderr, "ring_designs PRODUCERS SECONDS\n");
        return 2;
    }
    for (int index = 0; index < producer_count; index++) {
        rings[index].events = aligned_alloc(64, RING * sizeof(struct event));
        if (rings[index].events == NULL)
            return 1;
        memset(rings[index].events, 0, RING * sizeof(struct event));
    }
    for (int each = 0; each < DESIGNS; each++) {
        design = (enum design)each;
        measure(seconds);
    }
    return 0;
}
