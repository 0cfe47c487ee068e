// uname, sysinfo, host name and what sysconf knows.
#include "check.h"
#include <sys/sysinfo.h>
#include <sys/utsname.h>

int main(void) {
    struct utsname names;
    CHECK(uname(&names) == 0 && strcmp(names.sysname, "Linux") == 0 && strcmp(names.machine, "x86_64") == 0);
    struct sysinfo information;
    CHECK(sysinfo(&information) == 0 && information.totalram > 0 && information.procs > 0);
    char host[65];
    CHECK(gethostname(host, sizeof host) == 0 && strcmp(host, names.nodename) == 0);
    CHECK(sysconf(_SC_PAGESIZE) == 4096 && sysconf(_SC_CLK_TCK) == 100);
    say("%s %s %s %s\n", names.nodename, names.release, names.version, names.domainname);
    say("up %ld free %lu processes %d loads %lu\n", information.uptime, information.freeram, information.procs,
        information.loads[0]);
    int file = open("/proc/sys/kernel/random/uuid", O_RDONLY);
    char text[37] = {0};
    CHECK(file >= 0 && read(file, text, 36) == 36);
    say("%s\n", text);
    return 0;
}
