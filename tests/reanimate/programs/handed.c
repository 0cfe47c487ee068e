/* Named pipes that several processes open and write to in turn, and descriptors passed to a server
 * that serves the last client first. What is read, and which file gets what, depends on an order
 * that no single descriptor shows. */
#define _GNU_SOURCE
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 40, WRITERS = 3, CLIENTS = 4 };

/* The turn, passed around through a ring of pipes. */
static int ring[WRITERS][2];

static void await(int writer)
{
	char token;
	assert(read(ring[writer][0], &token, 1) == 1);
}

static void pass(int writer)
{
	assert(write(ring[(writer + 1) % WRITERS][1], "t", 1) == 1);
}

/* Half of the rounds open the pipe anew, so that now and then it has no writer. */
static void write_in_turn(int writer)
{
	int kept = -1;
	for (int round = 0; round < ROUNDS; round++) {
		char line[64];
		int length = sprintf(line, "round %d, writer %d\n", round, writer);
		await(writer);
		int pipe = round % 2 ? open("pipe", O_WRONLY) : kept >= 0 ? kept : (kept = open("pipe", O_WRONLY));
		assert(pipe >= 0 && write(pipe, line, length) == length);
		if (round % 2) {
			close(pipe);
			close(kept);
			kept = -1;
		}
		pass(writer);
	}
	exit(0);
}

static void named_pipe(void)
{
	assert(mkfifo("pipe", 0600) == 0);
	for (int writer = 0; writer < WRITERS; writer++)
		assert(pipe(ring[writer]) == 0);
	for (int writer = 0; writer < WRITERS; writer++)
		if (fork() == 0)
			write_in_turn(writer);
	pass(WRITERS - 1);
	int from = open("pipe", O_RDONLY), to = open("collected", O_CREAT | O_WRONLY, 0600), ends = 0, lines = 0;
	assert(from >= 0 && to >= 0);
	while (lines < ROUNDS * WRITERS) {
		char bytes[100];
		long count = read(from, bytes, sizeof bytes);
		assert(count >= 0 && write(to, bytes, count) == count);
		for (long i = 0; i < count; i++)
			lines += bytes[i] == '\n';
		if (count == 0) {
			ends++;
			usleep(1000);
		}
	}
	for (int writer = 0; writer < WRITERS; writer++)
		wait(NULL);
	assert(lines == ROUNDS * WRITERS && unlink("pipe") == 0);
}

union control {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(sizeof(int))];
};

static void hand_over(int socket, int number, int file)
{
	union control control = { 0 };
	struct iovec vector = { &number, sizeof number };
	struct msghdr message = { .msg_iov = &vector, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
	control.header = (struct cmsghdr){ CMSG_LEN(sizeof file), SOL_SOCKET, SCM_RIGHTS };
	memcpy(CMSG_DATA(&control.header), &file, sizeof file);
	assert(sendmsg(socket, &message, 0) == sizeof number);
}

static void client(struct sockaddr_un *address, int number, int file)
{
	int server = socket(AF_UNIX, SOCK_STREAM, 0);
	assert(connect(server, (struct sockaddr *)address, sizeof *address) == 0);
	hand_over(server, number, file);
	char done;
	assert(read(server, &done, 1) == 1);
	exit(0);
}

static void serve(int connection)
{
	int number, file;
	union control control;
	struct iovec vector = { &number, sizeof number };
	struct msghdr message = { .msg_iov = &vector, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
	assert(recvmsg(connection, &message, 0) == sizeof number && control.header.cmsg_type == SCM_RIGHTS);
	memcpy(&file, CMSG_DATA(&control.header), sizeof file);
	assert(dprintf(file, "served as number %d\n", number) > 0);
	close(file);
	assert(write(connection, "d", 1) == 1);
}

static void handed_over(void)
{
	struct sockaddr_un address = { AF_UNIX, "socket" };
	int server = socket(AF_UNIX, SOCK_STREAM, 0), connections[CLIENTS];
	assert(bind(server, (struct sockaddr *)&address, sizeof address) == 0 && listen(server, CLIENTS) == 0);
	for (int number = 0; number < CLIENTS; number++) {
		char name[32];
		sprintf(name, "client-%d", number);
		if (fork() == 0) {
			int file = open(name, O_CREAT | O_RDWR, 0600);
			assert(file >= 0 && dprintf(file, "begun by %s\n", name) > 0);
			client(&address, number, file);
		}
		connections[number] = accept(server, NULL, NULL);
	}
	for (int number = CLIENTS; number-- > 0;) {
		serve(connections[number]);
		close(connections[number]);
	}
	for (int number = 0; number < CLIENTS; number++)
		wait(NULL);
	assert(unlink("socket") == 0);
}

int main(void)
{
	named_pipe();
	handed_over();
	return 0;
}
