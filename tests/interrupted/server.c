// A server of four threads on a socket that exits normally on SIGTERM, SIGINT or SIGHUP.
#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define THREADS 4

static int listener;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int served;

static void *serve(void *unused)
{
	char byte;
	for (;;) {
		int connection = accept(listener, NULL, NULL);
		if (connection < 0)
			return unused;
		while (read(connection, &byte, 1) == 1) {
			byte++;
			write(connection, &byte, 1);
		}
		close(connection);
		pthread_mutex_lock(&lock);
		served++;
		pthread_mutex_unlock(&lock);
	}
}

int main(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof address;
	pthread_t threads[THREADS];
	sigset_t told;
	int number;
	sigemptyset(&told);
	sigaddset(&told, SIGTERM);
	sigaddset(&told, SIGINT);
	sigaddset(&told, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &told, NULL);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listener, (struct sockaddr *)&address, length) || listen(listener, 16) || getsockname(listener, (struct sockaddr *)&address, &length))
		return 1;
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, serve, NULL);
	dprintf(1, "ready %d\n", ntohs(address.sin_port));
	sigwait(&told, &number);
	shutdown(listener, SHUT_RDWR);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	dprintf(1, "signal %d, served %d\n", number, served);
	return 0;
}
