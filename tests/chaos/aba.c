// A lock-free stack whose compare-and-exchange takes a node that came back for one that never left.
// fails: status 1
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define ROUNDS 8

struct node {
	struct node *volatile next;
	volatile int owned;
};
static struct node nodes[3];
static struct node *volatile top;

static void push(struct node *node)
{
	node->owned = 0;
	do
		node->next = top;
	while (!__sync_bool_compare_and_swap(&top, node->next, node));
}

static struct node *pop(void)
{
	struct node *node, *next;
	do {
		node = top;
		if (!node)
			return NULL;
		next = node->next;
	} while (!__sync_bool_compare_and_swap(&top, node, next));
	if (__sync_fetch_and_add(&node->owned, 1)) {
		fputs("two threads own one node\n", stderr);
		exit(1);
	}
	return node;
}

static void *worker(void *unused)
{
	for (int i = 0; i < ROUNDS; i++) {
		struct node *one = pop(), *other = pop();
		if (one)
			push(one);
		if (other)
			push(other);
	}
	return unused;
}

int main(void)
{
	pthread_t threads[2];
	for (int i = 0; i < 3; i++)
		push(&nodes[i]);
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, worker, NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	puts("whole");
	return 0;
}
