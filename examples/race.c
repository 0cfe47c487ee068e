/* A race to hunt: one thread looks a word up and prints it, another replaces the table meanwhile. The check and the use are two steps.
 *
 *     gcc -g -pthread -o race examples/race.c
 *     retake record --chaos --until-failure ./race
 *     retake debug
 *
 * docs/DEBUGGING.md goes on from there. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct word {
	char text[24];
	unsigned uses;
};

static struct word *current;
static unsigned printed;

static struct word *make(unsigned number)
{
	struct word *word = calloc(1, sizeof *word);
	snprintf(word->text, sizeof word->text, "word %u", number);
	return word;
}

static void *replace(void *unused)
{
	for (unsigned i = 1; i <= 20; i++) {
		struct word *old = current;
		current = NULL;
		fprintf(stderr, "replacing %s\n", old->text);
		free(old);
		current = make(i);
	}
	return unused;
}

static void *print(void *unused)
{
	for (unsigned i = 0; i < 20; i++) {
		if (current == NULL)
			continue;
		printf("%s\n", current->text);
		fflush(stdout);
		current->uses++;
		printed++;
	}
	return unused;
}

int main(void)
{
	pthread_t threads[2];
	current = make(0);
	pthread_create(&threads[0], NULL, replace, NULL);
	pthread_create(&threads[1], NULL, print, NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	printf("%u words\n", printed);
	return 0;
}
