// /proc/self/status and its relatives: process numbers, name, tracer, seccomp.
#include "check.h"

static char text[65536];

static void load(const char *path) {
    int file = open(path, O_RDONLY);
    CHECK(file >= 0);
    ssize_t length = read(file, text, sizeof text - 1);
    CHECK(length > 0);
    text[length] = 0;
    CHECK(close(file) == 0);
}

static long field(const char *name) {
    char *found = strstr(text, name);
    CHECK(found);
    return strtol(found + strlen(name), NULL, 10);
}

int main(void) {
    load("/proc/self/status");
    CHECK(field("\nPid:\t") == getpid() && field("\nPPid:\t") == getppid());
    // A debugger would show here: programs that refuse to run under one must not notice the recorder.
    CHECK(field("\nTracerPid:\t") == 0);
    CHECK(field("\nThreads:\t") == 1);
    CHECK(field("\nSeccomp:\t") == 0);
    say("%s", text);
    load("/proc/self/stat");
    CHECK(strtol(text, NULL, 10) == getpid() && strstr(text, "(proc_status)"));
    say("%s", text);
    load("/proc/self/comm");
    CHECK(strcmp(text, "proc_status\n") == 0);
    load("/proc/self/statm");
    say("%s", text);
    load("/proc/meminfo");
    CHECK(field("MemTotal:") > 0);
    load("/proc/loadavg");
    say("%s", text);
    load("/proc/uptime");
    say("%s", text);
    return 0;
}
