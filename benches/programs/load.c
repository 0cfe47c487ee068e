/* Drives a server over loopback TCP with one kind of request and prints how it performed.
 *
 *     load http|memcached|redis PORT CONNECTIONS SECONDS RATE
 *
 * RATE 0: each connection sends its next request as soon as it has its answer. Otherwise RATE is
 * the number of requests a second, evenly spaced, on any free connection. Their time counts from
 * when they should have been sent, so that a server that stalls cannot hide it. All answers are as
 * long as the first one.
 *
 * It prints `requests`, `seconds`, and `latency_us`. 99.9 % of the answers were within this
 * latency, not counting requests of the first quarter of a second: a server's first work takes
 * longer, and so do the first wake-ups of a virtual processor that was idle. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { WARM_UP_NS = 250000000 };
enum { MOST_CONNECTIONS = 256, MOST_WAITING = 1 << 20, MOST_LATENCIES = 1 << 22 };

struct protocol {
    const char *name, *prepare, *request;
};

#define TEN_X "xxxxxxxxxx"
#define HUNDRED_X TEN_X TEN_X TEN_X TEN_X TEN_X TEN_X TEN_X TEN_X TEN_X TEN_X

static const struct protocol protocols[] = {
    {"http", NULL, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"},
    {"memcached", "set key 0 0 100\r\n" HUNDRED_X "\r\n", "get key\r\n"},
    {"redis", "SET key " HUNDRED_X "\r\n", "GET key\r\n"},
};

struct connection {
    int descriptor, is_busy;
    size_t missing;
    int64_t due;
};

static struct connection connections[MOST_CONNECTIONS];
static int connection_count, epoll;
static const char *request;
static size_t answer_bytes;
static int64_t *waiting, *latencies;
static long waiting_head, waiting_tail, answer_count, latency_count;
static int64_t counted_from;

static void fail(const char *what)
{
    fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static int dial(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1, descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0 || connect(descriptor, (struct sockaddr *)&address, sizeof address) != 0)
        fail("connect");
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return descriptor;
}

static void send_all(int descriptor, const char *text)
{
    size_t length = strlen(text);
    if (send(descriptor, text, length, MSG_NOSIGNAL) != (ssize_t)length)
        fail("send");
}

/* Sends a request and reads until no data has come for a while. The first data may take longer. */
static size_t ask_once(int descriptor, const char *text)
{
    struct timeval long_patience = {.tv_sec = 10}, patience = {.tv_usec = 100000};
    char buffer[65536];
    size_t bytes = 0;
    ssize_t got;
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &long_patience, sizeof long_patience);
    send_all(descriptor, text);
    while ((got = recv(descriptor, buffer, sizeof buffer, 0)) > 0) {
        bytes += (size_t)got;
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    }
    if (bytes == 0 || got == 0)
        fail("the first answer");
    return bytes;
}

static void ask(struct connection *connection, int64_t due)
{
    connection->is_busy = 1;
    connection->due = due;
    connection->missing = answer_bytes;
    send_all(connection->descriptor, request);
}

/* Reads what has arrived. Returns whether the answer is complete. */
static int take(struct connection *connection)
{
    char buffer[65536];
    ssize_t got = recv(connection->descriptor, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN)
        return 0;
    if (got <= 0)
        fail("an answer");
    if ((size_t)got > connection->missing) {
        fprintf(stderr, "load: an answer is longer than the first one\n");
        exit(1);
    }
    connection->missing -= (size_t)got;
    return connection->missing == 0;
}

static void connect_all(int port)
{
    epoll = epoll_create1(EPOLL_CLOEXEC);
    for (int index = 0; index < connection_count; index++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &connections[index]};
        connections[index].descriptor = dial(port);
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, connections[index].descriptor, &event) != 0)
            fail("epoll_ctl");
    }
}

static void finish(struct connection *connection)
{
    connection->is_busy = 0;
    if (connection->due >= counted_from && latency_count < MOST_LATENCIES)
        latencies[latency_count++] = now() - connection->due;
    answer_count++;
}

/* Sends due requests on connections that are free. */
static void send_waiting(void)
{
    for (int index = 0; index < connection_count && waiting_head < waiting_tail; index++)
        if (!connections[index].is_busy)
            ask(&connections[index], waiting[waiting_head++ % MOST_WAITING]);
}

/* Waits for answers, at most until `until`. */
static void receive(int64_t until, int ask_again)
{
    struct epoll_event events[MOST_CONNECTIONS];
    int64_t left = until - now();
    struct timespec patience = {.tv_sec = left > 0 ? left / 1000000000 : 0, .tv_nsec = left > 0 ? left % 1000000000 : 0};
    int count = epoll_pwait2(epoll, events, MOST_CONNECTIONS, &patience, NULL);
    for (int index = 0; index < count; index++) {
        struct connection *connection = events[index].data.ptr;
        if (!take(connection))
            continue;
        finish(connection);
        if (ask_again)
            ask(connection, now());
    }
}

static void drive_hard(int64_t end)
{
    for (int index = 0; index < connection_count; index++)
        ask(&connections[index], now());
    while (now() < end)
        receive(end, 1);
}

static void drive_at(double rate, int64_t start, int64_t end)
{
    int64_t interval = (int64_t)(1e9 / rate), due = start;
    while (now() < end) {
        for (; due <= now(); due += interval) {
            if (waiting_tail - waiting_head >= MOST_WAITING) {
                fprintf(stderr, "load: the server is too slow for this rate\n");
                exit(1);
            }
            waiting[waiting_tail++ % MOST_WAITING] = due;
        }
        send_waiting();
        receive(due < end ? due : end, 0);
    }
}

static int compare(const void *left, const void *right)
{
    int64_t one = *(const int64_t *)left, other = *(const int64_t *)right;
    return (one > other) - (one < other);
}

int main(int argc, char **argv)
{
    const struct protocol *protocol = NULL;
    for (size_t index = 0; argc == 6 && index < sizeof protocols / sizeof *protocols; index++)
        if (strcmp(argv[1], protocols[index].name) == 0)
            protocol = &protocols[index];
    if (protocol == NULL || atoi(argv[3]) < 1 || atoi(argv[3]) > MOST_CONNECTIONS) {
        fprintf(stderr, "load http|memcached|redis PORT CONNECTIONS SECONDS RATE\n");
        return 2;
    }
    int port = atoi(argv[2]);
    double seconds = atof(argv[4]), rate = atof(argv[5]);
    connection_count = atoi(argv[3]);
    request = protocol->request;
    waiting = malloc(MOST_WAITING * sizeof *waiting);
    latencies = malloc(MOST_LATENCIES * sizeof *latencies);
    if (waiting == NULL || latencies == NULL)
        fail("malloc");
    /* Otherwise the kernel waits another 50 microseconds before it wakes us. */
    prctl(PR_SET_TIMERSLACK, 1);
    int first = dial(port);
    if (protocol->prepare != NULL)
        ask_once(first, protocol->prepare);
    answer_bytes = ask_once(first, request);
    close(first);
    connect_all(port);
    int64_t start = now(), end = start + (int64_t)(seconds * 1e9);
    int64_t warm_up = (end - start) / 4;
    counted_from = start + (warm_up < WARM_UP_NS ? warm_up : WARM_UP_NS);
    if (rate > 0)
        drive_at(rate, start, end);
    else
        drive_hard(end);
    if (latency_count == 0)
        fail("no answers");
    qsort(latencies, (size_t)latency_count, sizeof *latencies, compare);
    printf("requests %ld\nseconds %.6f\n", answer_count, (double)(now() - start) / 1e9);
    printf("median_us %.1f\nlatency_us %.1f\n", (double)latencies[latency_count / 2] / 1e3, (double)latencies[(long)((double)latency_count * 0.999)] / 1e3);
    return 0;
}
