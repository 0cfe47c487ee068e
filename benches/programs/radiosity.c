/* Tasks that make tasks, as the light of a room is refined from patch to patch. Each thread has a
 * queue under a lock, takes from its own end and steals from the other end of other threads'
 * queues. Most of the time goes into small tasks and their locks. */
#include <math.h>
#include <sched.h>
#include <stdatomic.h>

#include "parallel.h"

enum { PATCHES = 64, DEPTH = 12, QUEUE = 65536, PATCH_LOCKS = 16 };

struct task {
    int patch, depth;
    double share;
};

struct queue {
    pthread_mutex_t lock;
    int head, tail;
    struct task *tasks;
};

static struct queue queues[MOST_THREADS];
static pthread_mutex_t patch_locks[PATCH_LOCKS];
static long light[PATCHES];
static atomic_long open_tasks;

static void put_task(struct queue *queue, struct task task)
{
    atomic_fetch_add(&open_tasks, 1);
    pthread_mutex_lock(&queue->lock);
    if (queue->tail - queue->head >= QUEUE)
        abort();
    queue->tasks[queue->tail++ % QUEUE] = task;
    pthread_mutex_unlock(&queue->lock);
}

static int take_task(struct queue *queue, int is_own, struct task *task)
{
    pthread_mutex_lock(&queue->lock);
    int found = queue->tail > queue->head;
    if (found)
        *task = is_own ? queue->tasks[--queue->tail % QUEUE] : queue->tasks[queue->head++ % QUEUE];
    pthread_mutex_unlock(&queue->lock);
    return found;
}

static int find_task(long thread, struct task *task)
{
    for (int other = 0; other < thread_count; other++)
        if (take_task(&queues[(thread + other) % thread_count], other == 0, task))
            return 1;
    return 0;
}

/* Gives light to a patch in whole units, so that the sum does not depend on the order. */
static void shine(const struct task *task)
{
    double value = task->share;
    for (int step = 0; step < 60; step++)
        value = sqrt(value * value + step * 1e-3);
    pthread_mutex_lock(&patch_locks[task->patch % PATCH_LOCKS]);
    light[task->patch] += lrint(value * 1000);
    pthread_mutex_unlock(&patch_locks[task->patch % PATCH_LOCKS]);
}

static void *refine(void *number)
{
    long thread = (long)number;
    struct task task;
    while (atomic_load(&open_tasks) > 0) {
        if (!find_task(thread, &task)) {
            sched_yield();
            continue;
        }
        shine(&task);
        for (int half = 0; half < 2 && task.depth > 0; half++) {
            struct task smaller = {(task.patch * 2 + half) % PATCHES, task.depth - 1, task.share / 2};
            put_task(&queues[thread], smaller);
        }
        atomic_fetch_sub(&open_tasks, 1);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    for (int thread = 0; thread < MOST_THREADS; thread++) {
        pthread_mutex_init(&queues[thread].lock, NULL);
        queues[thread].tasks = room_for(QUEUE, sizeof(struct task));
    }
    for (int lock = 0; lock < PATCH_LOCKS; lock++)
        pthread_mutex_init(&patch_locks[lock], NULL);
    for (int patch = 0; patch < PATCHES; patch++)
        put_task(&queues[0], (struct task){patch, DEPTH, 1.0 + patch});
    run_threads(argc, argv, refine);
    long sum = 0;
    for (int patch = 0; patch < PATCHES; patch++)
        sum += light[patch];
    printf("%ld\n", sum);
    return 0;
}
