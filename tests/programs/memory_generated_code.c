// Code written at run time: a function with a system call in it, made, run, changed, and run again.
#include "check.h"
#include <sys/mman.h>

// mov $number,%eax; syscall; ret
static const unsigned char template[] = {0xb8, 0, 0, 0, 0, 0x0f, 0x05, 0xc3};

typedef long (*call_function)(void);

static void write_call(unsigned char *code, int number) {
    memcpy(code, template, sizeof template);
    memcpy(code + 1, &number, sizeof number);
}

int main(void) {
    unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(code != MAP_FAILED);
    call_function call = (call_function)(void *)code;
    for (int round = 0; round < 100; round++) {
        write_call(code, SYS_getpid);
        CHECK(call() == getpid());
        write_call(code, SYS_getppid);
        CHECK(call() == getppid());
        // The bytes that the program wrote must be unchanged.
        CHECK(code[0] == 0xb8 && code[5] == 0x0f && code[6] == 0x05);
    }
    // The careful way: write, then make executable.
    unsigned char *strict = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(strict != MAP_FAILED);
    write_call(strict + 100, SYS_getuid);
    CHECK(mprotect(strict, 4096, PROT_READ | PROT_EXEC) == 0);
    CHECK(((call_function)(void *)(strict + 100))() == getuid());
    // Reads a call as data and runs the copy elsewhere.
    memcpy(code + 200, strict + 100, sizeof template);
    CHECK(((call_function)(void *)(code + 200))() == getuid());
    say("code at %p and %p\n", (void *)code, (void *)strict);
    return 0;
}
