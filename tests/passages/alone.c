/* The only thread of a process spins until a signal comes, time after time. The output depends on
 * when each came. */
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>

enum { SIGNALS = 30 };

static volatile int count;

static void note(int number)
{
    count += number == SIGALRM;
}

int main(void)
{
    unsigned long rounds = 0, hash = 0;
    signal(SIGALRM, note);
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 3000}, {0, 3000}}, NULL);
    while (count < SIGNALS) {
        for (int before = count; count == before; rounds++)
            __builtin_ia32_pause();
        hash = hash * 31 + rounds;
    }
    printf("%lx\n", hash);
    return 0;
}
