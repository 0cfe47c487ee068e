// A file mapped shared is changed by calls whose data are not from the program's memory, by path, and at its end: all changes show in the mapping.
#include "check.h"
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#define BYTES 8192

static char *view;

static void show(const char *what) {
    unsigned hash = 5381;
    for (int i = 0; i < BYTES; i++)
        hash = hash * 33 + (unsigned char)view[i];
    say("%s %u\n", what, hash);
}

// Differs in each run: only the recording has it.
static int random_file(void) {
    char data[4 * BYTES];
    int random = open("/dev/urandom", O_RDONLY), file = open("source", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(random >= 0 && file >= 0 && read(random, data, sizeof data) == sizeof data && write(file, data, sizeof data) == sizeof data);
    close(random);
    return file;
}

static void move_data(int source, int file) {
    int ends[2];
    loff_t from = 0, to = 100;
    CHECK(copy_file_range(source, &from, file, &to, 1000, 0) == 1000);
    show("copied");
    CHECK(lseek(file, 2000, SEEK_SET) == 2000 && lseek(source, 5000, SEEK_SET) == 5000 && sendfile(file, source, NULL, 700) == 700);
    show("sent");
    CHECK(pipe(ends) == 0);
    from = 9000, to = 4000;
    CHECK(splice(source, &from, ends[1], NULL, 500, 0) == 500 && splice(ends[0], NULL, file, &to, 500, 0) == 500);
    show("spliced");
    // Not every file system can.
    int cloned = ioctl(file, FICLONE, source);
    struct file_clone_range range = {.src_fd = source, .src_offset = 4096, .src_length = 4096, .dest_offset = 4096};
    CHECK(cloned == 0 ? ioctl(file, FICLONERANGE, &range) == 0 : errno == EOPNOTSUPP || errno == EINVAL || errno == ENOTTY || errno == EXDEV);
    show("cloned");
}

static void change_space(int file) {
    CHECK(fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 200, 300) == 0 || errno == EOPNOTSUPP);
    show("hole");
    CHECK(fallocate(file, FALLOC_FL_ZERO_RANGE, 4100, 50) == 0 || errno == EOPNOTSUPP);
    show("zeros");
    CHECK(fallocate(file, FALLOC_FL_COLLAPSE_RANGE, 0, 4096) == 0 || errno == EOPNOTSUPP || errno == EINVAL);
    CHECK(ftruncate(file, BYTES) == 0);
    show("shorter");
}

static void truncate_by_name(void) {
    CHECK(truncate("data", 1000) == 0 && truncate("data", BYTES) == 0);
    show("truncated");
    memset(view, 'm', BYTES);
    int again = open("data", O_RDWR | O_TRUNC);
    CHECK(again >= 0 && ftruncate(again, BYTES) == 0);
    show("opened");
    memset(view, 'n', BYTES);
    int created = creat("data", 0600);
    CHECK(created >= 0 && ftruncate(created, BYTES) == 0);
    show("created");
    // Written through a descriptor that cannot be read.
    int source = open("source", O_RDONLY);
    CHECK(lseek(created, 300, SEEK_SET) == 300 && sendfile(created, source, NULL, 3000) == 3000);
    show("sent again");
}

static void append(void) {
    struct iovec some = {"vector", 6};
    CHECK(ftruncate(open("data", O_WRONLY), 1000) == 0);
    int end = open("data", O_WRONLY | O_APPEND);
    CHECK(write(end, "written", 7) == 7 && pwrite(end, "anywhere", 8, 17) == 8 && pwritev(end, &some, 1, 19) == 6);
    CHECK(pwritev2(end, &some, 1, 23, 0) == 6);
    int plain = open("data", O_WRONLY);
    CHECK(pwritev2(plain, &some, 1, 21, RWF_APPEND) == 6 && pwritev2(plain, &some, 1, -1, 0) == 6);
    CHECK(ftruncate(plain, BYTES) == 0);
    show("appended");
}

int main(void) {
    int source = random_file(), file = open("data", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0 && ftruncate(file, BYTES) == 0);
    view = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(view != MAP_FAILED);
    memset(view, 'v', BYTES);
    move_data(source, file);
    change_space(file);
    truncate_by_name();
    append();
    return 0;
}
