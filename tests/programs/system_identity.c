// Users, groups, sessions and capabilities: reading them, and setting them to their current values.
#include "check.h"
#include <grp.h>
#include <linux/capability.h>
#include <sys/fsuid.h>

int main(void) {
    uid_t real, effective, saved;
    gid_t real_group, effective_group, saved_group;
    CHECK(getresuid(&real, &effective, &saved) == 0 && real == getuid() && effective == geteuid());
    CHECK(getresgid(&real_group, &effective_group, &saved_group) == 0);
    CHECK(real_group == getgid() && effective_group == getegid());
    CHECK(setresuid(-1, -1, -1) == 0 && setreuid(real, effective) == 0 && setresgid(-1, -1, -1) == 0);
    CHECK(setfsuid(effective) == (int)effective && setfsgid(effective_group) == (int)effective_group);
    int count = getgroups(0, NULL);
    gid_t groups[100];
    CHECK(count >= 0 && count <= 100 && getgroups(100, groups) == count);
    if (count > 1) {
        CHECK_FAILS(getgroups(1, groups), EINVAL);
    }
    CHECK(getpid() == syscall(SYS_gettid) && getppid() > 0 && getpgrp() == getpgid(0) && getsid(0) == getsid(getpid()));
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {{0}};
    CHECK(syscall(SYS_capget, &header, data) == 0);
    CHECK(syscall(SYS_capset, &header, data) == 0);
    header.version = 1;
    // A version the kernel does not know is corrected in place.
    CHECK_FAILS(syscall(SYS_capget, &header, data), EINVAL);
    CHECK(header.version == _LINUX_CAPABILITY_VERSION_3);
    say("uid %u gid %u pid %d parent %d group %d session %d capabilities %x %d groups\n", real, real_group, getpid(), getppid(),
        getpgrp(), getsid(0), data[0].effective, count);
    return 0;
}
