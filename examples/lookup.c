/* Crashes because of what it reads: a character that has no word. docs/DEBUGGING.md asks where that character came from.
 *
 *     gcc -g -o lookup lookup.c
 *     echo 10x1 > digits
 *     retake record ./lookup digits */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static const char *words[256] = { ['0'] = "zero", ['1'] = "one", ['2'] = "two", ['\n'] = "end" };
static unsigned char line[64];

static const char *word_of(unsigned char letter)
{
	return words[letter];
}

int main(int argc, char **argv)
{
	int file = open(argv[argc - 1], O_RDONLY);
	long length = read(file, line, sizeof line - 1);
	for (long i = 0; i < length; i++) {
		const char *word = word_of(line[i]);
		printf("%c %s\n", *word, word);
	}
	return 0;
}
