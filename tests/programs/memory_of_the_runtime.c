// Memory where the runtime lies: a program that hints at it gets other memory, and one that demands it gets an error (docs/LIMITS.md).
// modes: record replay slow trace
// group: memory
#include "check.h"
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>

#define START 0x550000000000
#define END 0x555000000000
#define BYTES 8192

static int lies_outside(const char *address) {
    return address != MAP_FAILED && ((uintptr_t)address + BYTES <= START || (uintptr_t)address >= END);
}

static char *map(uintptr_t address, int flags) {
    return mmap((void *)address, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

static void wished_for(uintptr_t address) {
    char *area = map(address, 0);
    CHECK(lies_outside(area));
    area[BYTES - 1] = 'x';
    say("%p\n", (void *)area);
}

static void demanded(uintptr_t address) {
    CHECK_FAILS(map(address, MAP_FIXED), ENOMEM);
    CHECK_FAILS(map(address, MAP_FIXED_NOREPLACE), ENOMEM);
    void *area = map(0, 0);
    CHECK(area != MAP_FAILED);
    CHECK_FAILS(mremap(area, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)address), EINVAL);
}

static void segments(uintptr_t address) {
    int segment = shmget(IPC_PRIVATE, BYTES, 0600);
    CHECK(segment >= 0);
    CHECK_FAILS(shmat(segment, (void *)address, 0), EINVAL);
    CHECK_FAILS(shmat(segment, (void *)address, SHM_REMAP), EINVAL);
    CHECK(shmctl(segment, IPC_RMID, NULL) == 0);
}

int main(void) {
    guard();
    // Addresses of the runtime's text, of a free place within its range, and of both ends, half inside.
    const uintptr_t places[] = {START, 0x552800000000, 0x553000000000, START - BYTES / 2, END - BYTES / 2};
    for (unsigned index = 0; index < sizeof places / sizeof places[0]; index++) {
        wished_for(places[index]);
        demanded(places[index]);
        segments(places[index]);
        CHECK_FAILS(munmap((void *)places[index], BYTES), EINVAL);
        CHECK_FAILS(mprotect((void *)places[index], BYTES, PROT_READ), EINVAL);
        CHECK_FAILS(madvise((void *)places[index], BYTES, MADV_DONTNEED), EINVAL);
    }
    CHECK(map(START - BYTES, MAP_FIXED_NOREPLACE) == (void *)(START - BYTES) && map(END, MAP_FIXED_NOREPLACE) == (void *)END);
    return 0;
}
