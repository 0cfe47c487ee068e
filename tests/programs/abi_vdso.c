// The vDSO's functions, which this program finds in the mapped image and calls directly.
#include "check.h"
#include <elf.h>
#include <sys/auxv.h>
#include <time.h>

static void *find(const char *name) {
    const char *base = (const char *)getauxval(AT_SYSINFO_EHDR);
    const Elf64_Ehdr *header = (const void *)base;
    const Elf64_Phdr *segments = (const void *)(base + header->e_phoff);
    const char *slide = base;
    const Elf64_Dyn *entry = NULL;
    for (int index = 0; index < header->e_phnum; index++) {
        if (segments[index].p_type == PT_LOAD) {
            slide = base + segments[index].p_offset - segments[index].p_vaddr;
        } else if (segments[index].p_type == PT_DYNAMIC) {
            entry = (const void *)(base + segments[index].p_offset);
        }
    }
    const Elf64_Sym *symbols = NULL;
    const char *strings = NULL;
    for (; entry && entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_SYMTAB) {
            symbols = (const void *)(slide + entry->d_un.d_ptr);
        } else if (entry->d_tag == DT_STRTAB) {
            strings = slide + entry->d_un.d_ptr;
        }
    }
    CHECK(symbols && strings);
    // The string table follows the symbols, so their number need not be known.
    for (const Elf64_Sym *symbol = symbols; (const char *)symbol < strings; symbol++) {
        if (strcmp(strings + symbol->st_name, name) == 0) {
            return (void *)(slide + symbol->st_value);
        }
    }
    return NULL;
}

int main(void) {
    int (*get_time)(clockid_t, struct timespec *) = find("__vdso_clock_gettime");
    long (*get_processor)(unsigned *, unsigned *, void *) = find("__vdso_getcpu");
    CHECK(get_time && get_processor);
    struct timespec last = {0, 0};
    for (int round = 0; round < 1000; round++) {
        struct timespec now;
        CHECK(get_time(CLOCK_MONOTONIC, &now) == 0);
        CHECK(now.tv_sec > last.tv_sec || (now.tv_sec == last.tv_sec && now.tv_nsec >= last.tv_nsec));
        last = now;
    }
    unsigned processor = 77777;
    CHECK(get_processor(&processor, NULL, NULL) == 0 && processor != 77777);
    // For an invalid clock the vDSO falls back on the kernel.
    CHECK(get_time(1000, &last) == -EINVAL);
    say("%ld.%09ld on %u\n", (long)last.tv_sec, last.tv_nsec, processor);
    return 0;
}
