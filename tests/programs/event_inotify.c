// inotify: events of a directory, with names and cookies.
#include "check.h"
#include <sys/inotify.h>

int main(void) {
    int notifier = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    CHECK(notifier >= 0 && mkdir("folder", 0700) == 0);
    int watch = inotify_add_watch(notifier, "folder", IN_CREATE | IN_MOVE | IN_DELETE | IN_CLOSE_WRITE);
    CHECK(watch >= 0);
    CHECK(close(open("folder/one", O_CREAT | O_WRONLY, 0600)) == 0);
    CHECK(rename("folder/one", "folder/two") == 0 && unlink("folder/two") == 0);
    char buffer[4096] __attribute__((aligned(8)));
    ssize_t length = read(notifier, buffer, sizeof buffer);
    CHECK(length > 0);
    uint32_t cookie = 0;
    int events = 0;
    for (ssize_t at = 0; at < length; events++) {
        struct inotify_event *event = (struct inotify_event *)(buffer + at);
        CHECK(event->wd == watch);
        say("%x %s cookie %u\n", event->mask, event->len ? event->name : "-", event->cookie);
        if (event->mask & IN_MOVED_FROM) {
            cookie = event->cookie;
        }
        CHECK(!(event->mask & IN_MOVED_TO) || event->cookie == cookie);
        at += sizeof *event + event->len;
    }
    CHECK(events == 5 && cookie != 0);
    CHECK(inotify_rm_watch(notifier, watch) == 0);
    CHECK(read(notifier, buffer, sizeof buffer) == 16 && ((struct inotify_event *)buffer)->mask == IN_IGNORED);
    CHECK_FAILS(inotify_add_watch(notifier, "missing", IN_CREATE), ENOENT);
    return 0;
}
