// The kernel puts packets into memory that it shares with the program, in all three versions of such a ring.
// needs: userns
// modes: native record replay slow
// stdout: ^1: 40 packets .*\n2: 40 packets .*\n3: 40 packets
#include "check.h"
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define BLOCK 65536
#define BLOCKS 4
#define FRAME 2048
#define PACKETS 40

static uint64_t seen;
static int count;

static void bring_up_loopback(void) {
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    int descriptor = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(ioctl(descriptor, SIOCSIFFLAGS, &request) == 0 && close(descriptor) == 0);
}

// Only outgoing packets: each packet appears twice on the loopback interface.
static void take(const char *packet, unsigned bytes, const struct sockaddr_ll *from) {
    if (from->sll_pkttype == PACKET_OUTGOING && ntohs(from->sll_protocol) == ETH_P_IP && bytes > 42) {
        seen = seen * 31 + digest(packet + 42, bytes - 42);
        count++;
    }
}

static int take_block(char *ring) {
    int taken = 0;
    for (int i = 0; i < BLOCKS; i++) {
        struct tpacket_block_desc *block = (void *)(ring + i * BLOCK);
        if (!(__atomic_load_n(&block->hdr.bh1.block_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER)) {
            continue;
        }
        char *at = (char *)block + block->hdr.bh1.offset_to_first_pkt;
        for (unsigned packet = 0; packet < block->hdr.bh1.num_pkts; packet++) {
            struct tpacket3_hdr *header = (void *)at;
            take(at + header->tp_mac, header->tp_snaplen, (void *)(at + TPACKET_ALIGN(sizeof *header)));
            at += header->tp_next_offset;
        }
        __atomic_store_n(&block->hdr.bh1.block_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
        taken++;
    }
    return taken;
}

static int take_frames(char *ring, int version, unsigned *next) {
    int taken = 0;
    for (;; taken++) {
        char *at = ring + *next * FRAME;
        struct tpacket2_hdr *second = (void *)at;
        struct tpacket_hdr *first = (void *)at;
        if (version == TPACKET_V2) {
            if (!(__atomic_load_n(&second->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER)) {
                return taken;
            }
            take(at + second->tp_mac, second->tp_snaplen, (void *)(at + TPACKET_ALIGN(sizeof *second)));
            __atomic_store_n(&second->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
        } else {
            if (!(__atomic_load_n(&first->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER)) {
                return taken;
            }
            take(at + first->tp_mac, first->tp_snaplen, (void *)(at + TPACKET_ALIGN(sizeof *first)));
            __atomic_store_n(&first->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
        }
        *next = (*next + 1) % (BLOCKS * BLOCK / FRAME);
    }
}

static void send_packets(int from, int to) {
    int sender = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(9), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    for (int i = from; i < to; i++) {
        char text[64];
        int bytes = snprintf(text, sizeof text, "packet %d of many", i);
        sendto(sender, text, (size_t)bytes, 0, (void *)&address, sizeof address);
    }
    CHECK(close(sender) == 0);
}

static void receive(int version) {
    int ring = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));
    CHECK(ring >= 0 && setsockopt(ring, SOL_PACKET, PACKET_VERSION, &version, sizeof version) == 0);
    struct tpacket_req3 request = {.tp_block_size = BLOCK,
                                   .tp_block_nr = BLOCKS,
                                   .tp_frame_size = FRAME,
                                   .tp_frame_nr = BLOCKS * BLOCK / FRAME,
                                   .tp_retire_blk_tov = 10};
    socklen_t bytes = version == TPACKET_V3 ? sizeof request : sizeof(struct tpacket_req);
    CHECK(setsockopt(ring, SOL_PACKET, PACKET_RX_RING, &request, bytes) == 0);
    char *shown = mmap(NULL, BLOCK * BLOCKS, PROT_READ | PROT_WRITE, MAP_SHARED, ring, 0);
    CHECK(shown != MAP_FAILED);
    unsigned next = 0;
    seen = 0;
    count = 0;
    for (int sent = 0; count < PACKETS;) {
        if (sent < PACKETS) {
            send_packets(sent, sent + 10);
            sent += 10;
        }
        struct pollfd ready = {ring, POLLIN, 0};
        CHECK(poll(&ready, 1, 5000) == 1);
        while (version == TPACKET_V3 ? take_block(shown) : take_frames(shown, version, &next)) {
        }
    }
    say("%d: %d packets %llx\n", version + 1, count, (unsigned long long)seen);
    CHECK(munmap(shown, BLOCK * BLOCKS) == 0 && close(ring) == 0);
}

int main(void) {
    guard();
    CHECK(unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0);
    bring_up_loopback();
    receive(TPACKET_V1);
    receive(TPACKET_V2);
    receive(TPACKET_V3);
    return 0;
}
