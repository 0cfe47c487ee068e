// Clocks read by the C library and by bare calls: with timers that interrupt, with wrong arguments, and after the vDSO has moved or vanished.
#include "check.h"

#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static volatile sig_atomic_t ticks;

static void tick(int number) { ticks += number == SIGALRM; }

static long nanoseconds(struct timespec time) { return time.tv_sec * 1000000000L + time.tv_nsec; }

static void all_agree(void) {
    struct timespec before, bare, after;
    struct timeval day;
    CHECK(clock_gettime(CLOCK_REALTIME, &before) == 0);
    CHECK(gettimeofday(&day, NULL) == 0);
    CHECK(syscall(SYS_clock_gettime, CLOCK_REALTIME, &bare) == 0);
    time_t second = time(NULL);
    CHECK(clock_gettime(CLOCK_REALTIME, &after) == 0);
    CHECK(nanoseconds(before) / 1000 <= day.tv_sec * 1000000L + day.tv_usec);
    CHECK(day.tv_sec * 1000000L + day.tv_usec <= nanoseconds(bare) / 1000);
    CHECK(nanoseconds(bare) <= nanoseconds(after));
    CHECK(second >= before.tv_sec - 1 && second <= after.tv_sec);
}

static void wrong_arguments(void) {
    struct timespec time;
    struct timezone zone;
    CHECK(syscall(SYS_clock_gettime, 77, &time) == -1 && errno == EINVAL);
    CHECK(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, 8L) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_gettimeofday, 8L, NULL) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_gettimeofday, NULL, &zone) == 0);
    CHECK(syscall(SYS_gettimeofday, NULL, NULL) == 0);
    CHECK(syscall(SYS_time, 8L) == -1 && errno == EFAULT);
}

static void while_interrupted(void) {
    struct itimerval often = { { 0, 500 }, { 0, 500 } }, never = { { 0, 0 }, { 0, 0 } };
    struct timespec last = { 0, 0 }, now;
    signal(SIGALRM, tick);
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    for (int i = 0; i < 300000; i++) {
        CHECK(clock_gettime(i % 2 ? CLOCK_MONOTONIC : CLOCK_MONOTONIC_COARSE, &now) == 0);
        if (i % 2) {
            CHECK(nanoseconds(last) <= nanoseconds(now));
            last = now;
        }
    }
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
}

// The address of the vDSO's code; 0: unmapped.
static unsigned long find(unsigned long *bytes) {
    char line[300];
    unsigned long start = 0, end = 0, found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps))
        if (strstr(line, "[vdso]") && sscanf(line, "%lx-%lx", &start, &end) == 2) {
            found = start;
            *bytes = end - start;
        }
    fclose(maps);
    return found;
}

static void without_vdso(void) {
    struct timespec time;
    unsigned long bytes = 0, start = find(&bytes);
    if (!start)
        return;
    void *place = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *moved = mremap((void *)start, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, place);
    CHECK(moved == place);
    CHECK(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &time) == 0);
    CHECK(munmap(moved, bytes) == 0);
    CHECK(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &time) == 0);
    say("gone %ld\n", time.tv_nsec);
}

int main(void) {
    for (int i = 0; i < 1000; i++)
        all_agree();
    wrong_arguments();
    while_interrupted();
    say("ticks %d\n", (int)ticks);
    without_vdso();
    _exit(0); // without code of the C library that might call the vDSO
}
