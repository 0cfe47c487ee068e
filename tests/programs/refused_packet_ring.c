// A ring of packets to send is refused as by a kernel without it, and so are mappings to which the kernel writes at any time.
// needs: userns
// modes: record replay slow
// stdout: ^refused$
#include "check.h"
#include <linux/if_packet.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>

int main(void) {
    CHECK(unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0);
    int ring = socket(AF_PACKET, SOCK_RAW, 0);
    struct tpacket_req request = {.tp_block_size = 4096, .tp_block_nr = 1, .tp_frame_size = 2048, .tp_frame_nr = 2};
    CHECK_FAILS(setsockopt(ring, SOL_PACKET, PACKET_TX_RING, &request, sizeof request), ENOPROTOOPT);
    CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, ring, 0) == MAP_FAILED && errno == ENODEV);
    int memory = open("/dev/zero", O_RDWR);
    char *zeros = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    CHECK(zeros != MAP_FAILED && zeros[4095] == 0);
    say("refused\n");
    return 0;
}
