/* Delivers mail as mail servers do: written to tmp/, synced, linked or renamed to new/, flagged in cur/. Four processes at once. */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void deliver(int process, int number)
{
	char name[64], temporary[80], fresh[80], read[96], text[256];
	sprintf(name, "%d.M%dP%d.host", 1000000 + number, number, process);
	sprintf(temporary, "tmp/%s", name);
	sprintf(fresh, "new/%s", name);
	sprintf(read, "cur/%s:2,S", name);
	int length = sprintf(text, "From: process %d\nSubject: message %d\n\nHello.\n", process, number);
	int file = open(temporary, O_CREAT | O_EXCL | O_WRONLY, 0600);
	assert(file >= 0 && write(file, text, length) == length && fsync(file) == 0);
	struct stat status;
	assert(fstat(file, &status) == 0 && status.st_size == length);
	close(file);
	if (number % 2) {
		assert(rename(temporary, fresh) == 0);
	} else {
		assert(link(temporary, fresh) == 0 && unlink(temporary) == 0);
	}
	if (number % 3 == 0)
		assert(rename(fresh, read) == 0);
	if (number % 7 == 0)
		assert(unlink(number % 3 ? fresh : read) == 0);
}

int main(void)
{
	mkdir("tmp", 0700);
	mkdir("new", 0700);
	mkdir("cur", 0700);
	for (int process = 0; process < 4; process++) {
		if (fork() == 0) {
			for (int number = 0; number < 100; number++)
				deliver(process, number);
			return 0;
		}
	}
	while (wait(NULL) > 0)
		;
	return 0;
}
