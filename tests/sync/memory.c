/* One thread allocates memory from the C library and another frees it, with files and output
 * meanwhile, and threads that begin and end. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 3, GENERATIONS = 20, PIECES = 300 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct piece { struct piece *next; size_t bytes; } *pieces;
static uint64_t order;

static void hand_over(struct piece *piece)
{
    pthread_mutex_lock(&mutex);
    piece->next = pieces;
    pieces = piece;
    pthread_mutex_unlock(&mutex);
}

static struct piece *take_over(void)
{
    pthread_mutex_lock(&mutex);
    struct piece *piece = pieces;
    if (piece)
        pieces = piece->next;
    order = order * 31 + (piece ? piece->bytes : 1);
    pthread_mutex_unlock(&mutex);
    return piece;
}

static void *work(void *argument)
{
    uint64_t state = (uint64_t)(uintptr_t)argument;
    for (int index = 0; index < PIECES; index++) {
        state = state * 6364136223846793005 + 1442695040888963407;
        size_t bytes = sizeof(struct piece) + (state >> 40) % (index % 50 ? 600 : 200000);
        struct piece *piece = malloc(bytes);
        memset(piece, index, bytes);
        piece->bytes = bytes;
        hand_over(piece);
        struct piece *other = take_over();
        if (other && index % 3 == 0)
            hand_over(realloc(other, other->bytes));
        else
            free(other);
        char text[100];
        snprintf(text, sizeof text, "%d %zu %f", index, bytes, (double)bytes / 3);
        state ^= (uint64_t)text[3];
        if (index % 100 == 0)
            printf("%d of %p\n", index, argument);
    }
    return NULL;
}

int main(void)
{
    for (uintptr_t generation = 0; generation < GENERATIONS; generation++) {
        pthread_t threads[THREADS];
        for (uintptr_t who = 0; who < THREADS; who++)
            pthread_create(&threads[who], NULL, work, (void *)(generation * THREADS + who));
        for (int who = 0; who < THREADS; who++)
            pthread_join(threads[who], NULL);
    }
    size_t left = 0;
    for (struct piece *piece; (piece = take_over()) != NULL; free(piece))
        left += piece->bytes;
    printf("%zu %016llx\n", left, (unsigned long long)order);
    return 0;
}
