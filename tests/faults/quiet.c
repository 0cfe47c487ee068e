/* Counts in a file, and prints nothing. */
#include <fcntl.h>
#include <unistd.h>

int main(void)
{
	int file = open("count", O_RDWR | O_CREAT | O_TRUNC, 0644);
	for (unsigned long count = 1;; count++) {
		if (pwrite(file, &count, sizeof count, 0) != sizeof count)
			return 1;
		usleep(5000);
	}
}
