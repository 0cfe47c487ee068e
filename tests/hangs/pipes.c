/* Parent and child each wait for the other's question: through pipes, or with an argument through a
 * pair of sockets. */
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int ask(int from)
{
	char answer;

	return read(from, &answer, 1) == 1;
}

int main(int argc, char **argv)
{
	int to_child[2], to_parent[2];

	(void)argv;
	if (argc > 1) {
		socketpair(AF_UNIX, SOCK_STREAM, 0, to_child);
		to_parent[0] = to_child[0];
		to_parent[1] = to_child[1];
	} else {
		pipe(to_child);
		pipe(to_parent);
	}
	if (fork() == 0) {
		int from = argc > 1 ? to_child[1] : to_child[0];

		close(argc > 1 ? to_child[0] : to_child[1]);
		if (argc == 1)
			close(to_parent[0]);
		return ask(from);
	}
	if (argc > 1) {
		close(to_child[1]);
	} else {
		close(to_child[0]);
		close(to_parent[1]);
	}
	write(1, "ready\n", 6);
	return ask(to_parent[0]);
}
