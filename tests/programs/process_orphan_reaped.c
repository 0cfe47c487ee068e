/* An orphan that has ended is gone soon: whoever adopts it reaps it, also while the program runs. */
// output: same
// group: process
#include "check.h"
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
	int ends[2];
	CHECK(pipe(ends) == 0);
	pid_t child = fork();
	if (!child) {
		pid_t orphan = fork();
		if (!orphan) {
			usleep(50000);
			_exit(0);
		}
		_exit(write(ends[1], &orphan, sizeof orphan) != sizeof orphan);
	}
	pid_t orphan;
	CHECK(read(ends[0], &orphan, sizeof orphan) == sizeof orphan);
	CHECK(waitpid(child, NULL, 0) == child);
	for (int look = 0; look < 400; look++) {
		if (kill(orphan, 0) < 0) {
			CHECK(errno == ESRCH);
			puts("gone");
			return 0;
		}
		usleep(25000);
	}
	puts("still there after ten seconds");
	return 1;
}
