// Replacing a table of packet filters: the kernel writes the counters of the old one to an address inside the option.
// output: same
#include "check.h"
#include <arpa/inet.h>
#include <linux/netfilter_arp/arp_tables.h>
#include <linux/netfilter_ipv4/ip_tables.h>
#include <linux/netfilter_ipv6/ip6_tables.h>
#include <sched.h>
#include <sys/socket.h>

#define COUNTERS 16

/* The families' structures have the same fields, but their hooks differ in number. */
#define REPLACE(family, level, get_info, get_entries, set_replace)                       \
    do {                                                                                 \
        int table = socket(level == IPPROTO_IPV6 ? AF_INET6 : AF_INET, SOCK_RAW, IPPROTO_RAW); \
        struct family##_getinfo info = {.name = "filter"};                               \
        socklen_t size = sizeof info;                                                    \
        if (table < 0 || getsockopt(table, level, get_info, &info, &size)) {             \
            say(#family ": none\n");                                                     \
            break;                                                                       \
        }                                                                                \
        CHECK(info.num_entries <= COUNTERS);                                             \
        struct family##_get_entries *old = calloc(1, sizeof *old + info.size);           \
        strcpy(old->name, "filter");                                                     \
        old->size = info.size;                                                           \
        size = sizeof *old + info.size;                                                  \
        CHECK(getsockopt(table, level, get_entries, old, &size) == 0);                   \
        size = sizeof(struct family##_replace) + info.size;                              \
        struct family##_replace *new = calloc(1, size);                                  \
        struct xt_counters counters[COUNTERS];                                           \
        memset(counters, 0x55, sizeof counters);                                         \
        strcpy(new->name, "filter");                                                     \
        new->valid_hooks = info.valid_hooks;                                             \
        new->num_entries = info.num_entries;                                             \
        new->size = info.size;                                                           \
        memcpy(new->hook_entry, info.hook_entry, sizeof info.hook_entry);                \
        memcpy(new->underflow, info.underflow, sizeof info.underflow);                   \
        new->num_counters = info.num_entries;                                            \
        new->counters = counters;                                                        \
        memcpy(new->entries, old->entrytable, info.size);                                \
        CHECK(setsockopt(table, level, set_replace, new, size) == 0);                    \
        say(#family ": %u entries, %llx\n", info.num_entries,                            \
            (unsigned long long)digest(counters, sizeof counters));                      \
        free(old);                                                                       \
        free(new);                                                                       \
        close(table);                                                                    \
    } while (0)

int main(void) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET)) {
        say("no namespaces\n");
        return 0;
    }
    REPLACE(ipt, IPPROTO_IP, IPT_SO_GET_INFO, IPT_SO_GET_ENTRIES, IPT_SO_SET_REPLACE);
    REPLACE(ip6t, IPPROTO_IPV6, IP6T_SO_GET_INFO, IP6T_SO_GET_ENTRIES, IP6T_SO_SET_REPLACE);
    REPLACE(arpt, IPPROTO_IP, ARPT_SO_GET_INFO, ARPT_SO_GET_ENTRIES, ARPT_SO_SET_REPLACE);
    return 0;
}
