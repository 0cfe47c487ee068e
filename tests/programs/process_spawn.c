// posix_spawn, system and popen: how most programs start others.
// stdout: ^shell says 7$
#include "check.h"
#include <spawn.h>

extern char **environ;

int main(void) {
    guard();
    posix_spawn_file_actions_t actions;
    CHECK(posix_spawn_file_actions_init(&actions) == 0);
    CHECK(posix_spawn_file_actions_addopen(&actions, 1, "output", O_WRONLY | O_CREAT, 0600) == 0);
    char *arguments[] = {"sh", "-c", "echo spawned; exit 3", NULL};
    pid_t child;
    CHECK(posix_spawn(&child, "/bin/sh", &actions, NULL, arguments, environ) == 0);
    expect_exit(child, 3);
    char text[20] = {0};
    CHECK(read(open("output", O_RDONLY), text, sizeof text) == 8 && strcmp(text, "spawned\n") == 0);
    CHECK(posix_spawn(&child, "/nonexistent", NULL, NULL, arguments, environ) == ENOENT);
    posix_spawnattr_t attributes;
    CHECK(posix_spawnattr_init(&attributes) == 0);
    CHECK(posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP) == 0);
    CHECK(posix_spawnp(&child, "true", NULL, &attributes, (char *[]){"true", NULL}, environ) == 0);
    expect_exit(child, 0);
    int status = system("echo shell says 7; exit 7");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    FILE *pipe = popen("echo one; echo two", "r");
    CHECK(pipe && fgets(text, sizeof text, pipe) && strcmp(text, "one\n") == 0);
    CHECK(fgets(text, sizeof text, pipe) && !fgets(text, sizeof text, pipe) && pclose(pipe) == 0);
    say("child %d\n", child);
    return 0;
}
