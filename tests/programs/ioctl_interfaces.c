// Network interfaces by ioctl: a list behind a pointer in the argument, then the flags and the address of each interface.
#include "check.h"
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

int main(void) {
    int made = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifreq list[16];
    memset(list, 0x22, sizeof list);
    struct ifconf configuration = {.ifc_len = sizeof list, .ifc_req = list};
    CHECK(made >= 0 && ioctl(made, SIOCGIFCONF, &configuration) == 0);
    int count = configuration.ifc_len / (int)sizeof list[0];
    for (int index = 0; index < count; index++) {
        struct ifreq request = {0};
        memcpy(request.ifr_name, list[index].ifr_name, IFNAMSIZ);
        CHECK(ioctl(made, SIOCGIFFLAGS, &request) == 0);
        int flags = request.ifr_flags;
        CHECK(ioctl(made, SIOCGIFMTU, &request) == 0);
        struct sockaddr_in *address = (struct sockaddr_in *)&list[index].ifr_addr;
        say("%s flags %x mtu %d address %08x\n", list[index].ifr_name, flags, request.ifr_mtu,
            ntohl(address->sin_addr.s_addr));
    }
    configuration = (struct ifconf){.ifc_len = 0, .ifc_req = NULL};
    CHECK(ioctl(made, SIOCGIFCONF, &configuration) == 0);
    CHECK(configuration.ifc_len == count * (int)sizeof list[0]);
    struct ifreq missing = {.ifr_name = "no-such-one"};
    CHECK_FAILS(ioctl(made, SIOCGIFINDEX, &missing), ENODEV);
    return 0;
}
