// A large environment and many arguments: 300 KB handed over by exec.
#include "check.h"

extern char **environ;

int main(int count, char **arguments) {
    if (count > 1) {
        CHECK(count == 2001 && strcmp(arguments[2000], "argument 2000") == 0);
        int variables = 0;
        uint64_t hash = 0;
        for (char **variable = environ; *variable; variable++, variables++) {
            hash = hash * 31 + digest(*variable, strlen(*variable));
        }
        CHECK(variables == 1001 && strlen(getenv("LONG")) == 100000);
        say("%d variables %016lx at %p\n", variables, (unsigned long)hash, (void *)environ);
        return 0;
    }
    char **list = calloc(2002, sizeof *list);
    char **environment = calloc(1002, sizeof *environment);
    CHECK(list && environment);
    for (int index = 0; index < 2001; index++) {
        CHECK(asprintf(&list[index], "argument %d", index) > 0);
    }
    for (int index = 0; index < 1000; index++) {
        CHECK(asprintf(&environment[index], "VARIABLE_%d=%0200d", index, index) > 0);
    }
    environment[1000] = malloc(100006);
    memcpy(environment[1000], "LONG=", 5);
    memset(environment[1000] + 5, 'x', 100000);
    environment[1000][100005] = 0;
    execve("/proc/self/exe", list, environment);
    return 1;
}
