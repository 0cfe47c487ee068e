// Capabilities by the oldest and the newest version of the call: the oldest writes one set, here right up to unmapped memory.
// output: same
#include "check.h"
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/syscall.h>

int main(void) {
    static const unsigned versions[] = {_LINUX_CAPABILITY_VERSION_1, _LINUX_CAPABILITY_VERSION_2, _LINUX_CAPABILITY_VERSION_3};
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && munmap(pages + 4096, 4096) == 0);
    for (int i = 0; i < 3; i++) {
        size_t bytes = (i ? 2 : 1) * sizeof(struct __user_cap_data_struct);
        struct __user_cap_header_struct header = {versions[i], 0};
        CHECK(syscall(SYS_capget, &header, pages + 4096 - bytes) == 0);
        say("%x %llx\n", header.version, (unsigned long long)digest(pages + 4096 - bytes, bytes));
    }
    struct __user_cap_header_struct header = {5, 0};
    CHECK_FAILS(syscall(SYS_capget, &header, pages), EINVAL);
    CHECK(header.version == _LINUX_CAPABILITY_VERSION_3);
    return 0;
}
