/* A file that one process has mapped for reading, and another one changes by calls. The other
 * process executed its program before the file was mapped. */
// output: same
// group: ipc
#include "check.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define SIZE 16384
#define PLACE 4096
#define INPUT 10
#define OUTPUT 11

static int write_on_demand(const char *path)
{
    char number;
    while (read(INPUT, &number, 1) == 1) {
        char text[9];
        snprintf(text, sizeof text, "write-%02d", number);
        int file = open(path, O_RDWR);
        CHECK(file >= 0);
        if (number % 3 == 0)
            CHECK(pwrite(file, text, 8, PLACE) == 8);
        else if (number % 3 == 1)
            CHECK(lseek(file, PLACE, SEEK_SET) == PLACE && write(file, text, 8) == 8);
        else
            CHECK(ftruncate(file, PLACE) == 0 && ftruncate(file, SIZE) == 0);
        close(file);
        CHECK(write(OUTPUT, &number, 1) == 1);
    }
    return 0;
}

int main(int count, char **arguments)
{
    if (count > 1)
        return write_on_demand(arguments[1]);
    char path[] = "mapped-XXXXXX", buffer[SIZE];
    int file = mkstemp(path), there[2], back[2];
    memset(buffer, '-', SIZE);
    CHECK(file >= 0 && write(file, buffer, SIZE) == SIZE && !pipe(there) && !pipe(back));
    pid_t child = fork();
    if (!child) {
        CHECK(dup2(there[0], INPUT) == INPUT && dup2(back[1], OUTPUT) == OUTPUT);
        close(there[1]);
        execl("/proc/self/exe", "writer", path, NULL);
        _exit(9);
    }
    char number = 0, answer;
    CHECK(write(there[1], &number, 1) == 1 && read(back[0], &answer, 1) == 1);
    char *mapped = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, file, 0);
    CHECK(mapped != MAP_FAILED);
    for (number = 1; number < 12; number++) {
        CHECK(write(there[1], &number, 1) == 1 && read(back[0], &answer, 1) == 1);
        CHECK(answer == number);
        for (int i = 0; i < 8; i++)
            putchar(mapped[PLACE + i] ? mapped[PLACE + i] : '.');
        putchar('\n');
    }
    close(there[1]);
    CHECK(waitpid(child, NULL, 0) == child);
    unlink(path);
    return 0;
}
