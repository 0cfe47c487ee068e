// Processors and scheduling: affinity, getcpu, yielding, priorities and policies.
#include "check.h"
#include <sched.h>
#include <sys/resource.h>

int main(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CHECK(sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) >= 1);
    unsigned char small[1024];
    memset(small, 0x99, sizeof small);
    // The raw call returns how many bytes it wrote and leaves the others alone.
    long bytes = syscall(SYS_sched_getaffinity, 0, sizeof small, small);
    CHECK(bytes > 0 && bytes < (long)sizeof small && small[bytes] == 0x99);
    CHECK(sched_setaffinity(0, sizeof set, &set) == 0);
    unsigned processor;
    unsigned node;
    CHECK(getcpu(&processor, &node) == 0 && sched_getcpu() >= 0);
    CHECK(sched_yield() == 0);
    int policy = sched_getscheduler(0);
    struct sched_param parameters = {-1};
    CHECK(sched_getparam(0, &parameters) == 0 && parameters.sched_priority >= 0);
    CHECK(sched_get_priority_max(SCHED_FIFO) == 99 && sched_get_priority_min(SCHED_FIFO) == 1);
    errno = 0;
    int priority = getpriority(PRIO_PROCESS, 0);
    CHECK(errno == 0 && setpriority(PRIO_PROCESS, 0, priority + 1) == 0 && nice(1) == priority + 2);
    say("%d processors, on %u of node %u, policy %d, online %ld\n", CPU_COUNT(&set), processor, node, policy,
        sysconf(_SC_NPROCESSORS_ONLN));
    return 0;
}
