/* A race to hunt: one thread prints a word, another one replaces it meanwhile. The check and the use are two steps.
 *
 *     gcc -g -pthread -o race race.c
 *     retake record --chaos --until-failure ./race
 *     retake debug
 *
 * docs/DEBUGGING.md goes on from there. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct word {
	char text[24];
	unsigned uses;
};

static struct word *current;

static struct word *make(unsigned number)
{
	struct word *word = calloc(1, sizeof *word);
	snprintf(word->text, sizeof word->text, "word %u", number);
	return word;
}

static void *print(void *unused)
{
	struct word *word = current;
	if (word == NULL)
		return unused;
	puts(word->text);
	fflush(stdout);
	current->uses++;
	return unused;
}

static void *replace(void *unused)
{
	struct word *old = current;
	current = NULL;
	fprintf(stderr, "replacing %s\n", old->text);
	free(old);
	current = make(1);
	return unused;
}

int main(void)
{
	pthread_t threads[2];
	current = make(0);
	pthread_create(&threads[0], NULL, print, NULL);
	pthread_create(&threads[1], NULL, replace, NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
