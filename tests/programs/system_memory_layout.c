// The program reads its layout, and changes what the kernel lets it change (PR_SET_MM).
// output: same
#include "check.h"
#include <linux/prctl.h>
#include <sys/prctl.h>

int main(void) {
    unsigned bytes = 0;
    CHECK(prctl(PR_SET_MM, PR_SET_MM_MAP_SIZE, &bytes, 0, 0) == 0 && bytes >= sizeof(struct prctl_mm_map));
    CHECK(prctl(PR_SET_MM, PR_SET_MM_ARG_START, 1, 0, 0) == -1);
    say("%u\n", bytes);
    return 0;
}
