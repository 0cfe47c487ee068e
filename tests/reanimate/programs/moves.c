/* Data that the kernel moves: copy_file_range, sendfile, splice, tee, vmsplice; from an existing
 * file, through pipes, from a socket. */
#define _GNU_SOURCE
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static int make(const char *name)
{
	int file = open(name, O_CREAT | O_WRONLY | O_TRUNC, 0600);
	assert(file >= 0);
	return file;
}

static void from_file(const char *path)
{
	int source = open(path, O_RDONLY), file = make("copied");
	assert(source >= 0);
	while (copy_file_range(source, NULL, file, NULL, 100000, 0) > 0)
		;
	close(file);
	off_t offset = 10;
	file = make("sent");
	assert(sendfile(file, source, &offset, 5000) == 5000 && offset == 5010);
	close(file);
	close(source);
}

static void through_pipes(const char *path)
{
	int first[2], second[2], source = open(path, O_RDONLY);
	assert(pipe(first) == 0 && pipe(second) == 0);
	loff_t offset = 100;
	assert(splice(source, &offset, first[1], NULL, 3000, 0) == 3000);
	assert(tee(first[0], second[1], 3000, 0) == 3000);
	int file = make("spliced");
	assert(splice(first[0], NULL, file, NULL, 3000, 0) == 3000);
	close(file);
	char bytes[3000];
	assert(read(second[0], bytes, sizeof bytes) == sizeof bytes);
	file = make("teed");
	assert(write(file, bytes, sizeof bytes) == sizeof bytes);
	close(file);
	static char given[] = "vmspliced bytes";
	struct iovec vector = { given, sizeof given };
	assert(vmsplice(first[1], &vector, 1, 0) == sizeof given);
	file = make("given");
	assert(splice(first[0], NULL, file, NULL, sizeof given, 0) == sizeof given);
	close(file);
}

static void from_socket(void)
{
	int ends[2], through[2];
	assert(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 && pipe(through) == 0);
	if (fork() == 0) {
		close(ends[0]);
		for (int i = 0; i < 20; i++) {
			char text[64];
			int length = sprintf(text, "line %d from the socket\n", i);
			assert(write(ends[1], text, length) == length);
			usleep(1000);
		}
		_exit(0);
	}
	close(ends[1]);
	int file = make("received");
	for (long moved; (moved = splice(ends[0], NULL, through[1], NULL, 65536, 0)) > 0;) {
		while (moved > 0)
			moved -= splice(through[0], NULL, file, NULL, moved, 0);
	}
	close(file);
	wait(NULL);
}

int main(int count, char **arguments)
{
	assert(count == 2);
	from_file(arguments[1]);
	through_pipes(arguments[1]);
	from_socket();
	return 0;
}
