/* Stores through mappings. Each is followed by one of the ways in which a mapping ends or another
 * process sees the store. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 8192 };

static int file;

static void check(int is_good, const char *what)
{
    if (!is_good) {
        perror(what);
        exit(1);
    }
}

/* Maps a new file and stores into it. */
static char *map(const char *name)
{
    file = open(name, O_CREAT | O_RDWR, 0600);
    check(file >= 0 && ftruncate(file, BYTES) == 0, name);
    char *bytes = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    check(bytes != MAP_FAILED, "mmap");
    bytes[5] = 'x';
    return bytes;
}

static void is_read(int at, char wanted)
{
    static char buffer[2 * BYTES];
    check(pread(file, buffer, sizeof buffer, 0) >= BYTES && buffer[at] == wanted, "pread");
}

static void store_in_child(char *bytes, int at, int signal)
{
    pid_t child = fork();
    if (child == 0) {
        bytes[at] = 'c';
        raise(signal);
        _exit(0);
    }
    check(waitpid(child, NULL, 0) == child, "waitpid");
    is_read(at, 'c');
}

int main(void)
{
    check(munmap(map("unmapped"), BYTES) == 0, "munmap");

    char *bytes = map("read");
    is_read(5, 'x');
    bytes[7] = 'y';
    check(pwrite(file, "abc", 3, 20) == 3 && lseek(file, 0, SEEK_END) == BYTES && write(file, "more", 4) == 4, "write");
    is_read(7, 'y');
    bytes[8] = 'z';
    int copy = open("sent", O_CREAT | O_RDWR, 0600);
    check(lseek(file, 0, SEEK_SET) == 0 && sendfile(copy, file, NULL, BYTES) == BYTES, "sendfile");

    bytes = map("renamed");
    check(rename("renamed", "of_another_name") == 0 && munmap(bytes, BYTES) == 0, "rename");

    bytes = mremap(map("moved"), BYTES, 3 * BYTES, MREMAP_MAYMOVE);
    check(bytes != MAP_FAILED, "mremap");
    bytes[4096] = 'm';
    check(madvise(bytes, BYTES, MADV_DONTNEED) == 0, "madvise");

    bytes = map("replaced");
    check(mmap(bytes, BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == bytes, "mmap");

    bytes = map("synced");
    check(msync(bytes, BYTES, MS_SYNC) == 0, "msync");
    bytes[6] = 's';

    bytes = map("of_children");
    store_in_child(bytes, 4000, SIGURG);
    store_in_child(bytes, 4001, SIGKILL);

    map("executed");
    execl("/bin/true", "true", (char *)NULL);
    return 1;
}
