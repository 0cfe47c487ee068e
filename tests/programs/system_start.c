// The state at the start of a program: arguments, environment, auxiliary vector, random addresses.
// args: one "two" three
#include "check.h"
#include <sys/auxv.h>

extern char **environ;
extern char end;

int main(int count, char **arguments) {
    CHECK(count >= 3 && arguments[count] == NULL);
    for (int index = 0; index < count; index++) {
        say("argument %s\n", arguments[index]);
    }
    for (char **variable = environ; *variable; variable++) {
        say("%s\n", *variable);
    }
    unsigned long kinds[] = {AT_PHDR, AT_PHNUM, AT_BASE, AT_ENTRY, AT_UID, AT_SECURE, AT_RANDOM, AT_HWCAP, AT_HWCAP2,
                             AT_SYSINFO_EHDR, AT_EXECFN, AT_CLKTCK, AT_MINSIGSTKSZ};
    for (size_t index = 0; index < sizeof kinds / sizeof kinds[0]; index++) {
        say("auxiliary %lu = %lx\n", kinds[index], getauxval(kinds[index]));
    }
    CHECK(getauxval(AT_PAGESZ) == 4096 && getauxval(AT_UID) == getuid() && getauxval(AT_CLKTCK) == 100);
    CHECK(*(unsigned char *)getauxval(AT_SYSINFO_EHDR) == 0x7f);
    CHECK(strstr((char *)getauxval(AT_EXECFN), "system_start"));
    CHECK((void *)environ == (void *)(arguments + count + 1));
    int local;
    say("stack %p heap %p text %p data %p\n", (void *)&local, sbrk(0), (void *)main, (void *)&end);
    return 0;
}
