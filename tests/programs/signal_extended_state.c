// A signal frame has the state components and the size of the kernel's own frames, whatever else the processor offers.
// output: same
// stdout: ^features 0x[0-9a-f]*, [0-9]* bytes$
#include "check.h"
#include <ucontext.h>

// What the kernel writes behind the legacy area: struct _fpx_sw_bytes.
struct software_bytes { unsigned magic, extended_bytes; unsigned long features; unsigned state_bytes; };

static struct software_bytes seen;

static void look(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    const char *area = (const char *)((ucontext_t *)context)->uc_mcontext.fpregs;
    memcpy(&seen, area + 464, sizeof seen);
    unsigned end;
    memcpy(&end, area + seen.state_bytes, sizeof end);
    CHECK(end == 0x46505845); // FP_XSTATE_MAGIC2
}

int main(void) {
    handle(SIGUSR1, look, SA_SIGINFO);
    CHECK(kill(getpid(), SIGUSR1) == 0);
    CHECK(seen.magic == 0x46505853 && seen.extended_bytes == seen.state_bytes + 4);
    say("features %#lx, %u bytes\n", seen.features, seen.state_bytes);
    return 0;
}
