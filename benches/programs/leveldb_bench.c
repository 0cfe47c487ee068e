/* Does what LevelDB's own db_bench does by default, in its order, through the C interface. It
 * writes entries of 100 bytes: all in order, a few synced to disk one by one, all at random, and
 * again over those. It reads them at random, twice, in order and in reverse, and again after
 * compaction. Last it writes a few large entries. (db_bench ends with its own checksums and
 * compression, which are not part of the interface.) The arguments are a new folder and the number
 * of entries. */
#include <leveldb/c.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_BYTES = 16, VALUE_BYTES = 100, LARGE_BYTES = 100000, FEWER = 1000 };

static leveldb_t *database;
static leveldb_options_t *options;
static const char *folder;
static long entry_count;
static uint64_t state = 301;

static void check(char *error)
{
    if (error != NULL) {
        fprintf(stderr, "leveldb: %s\n", error);
        exit(1);
    }
}

static uint64_t next_number(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static long next_entry(void) { return (long)(next_number() % (uint64_t)entry_count); }

static void open_new(void)
{
    char *error = NULL;
    if (database != NULL) {
        leveldb_close(database);
        leveldb_destroy_db(options, folder, &error);
        check(error);
    }
    database = leveldb_open(options, folder, &error);
    check(error);
}

/* Values are parts of this text. */
static char text[1 << 20];

/* Half of every hundred bytes is compressible, as in db_bench. */
static void make_text(void)
{
    for (size_t place = 0; place < sizeof text; place++)
        text[place] = place % VALUE_BYTES < VALUE_BYTES / 2 ? (char)(' ' + next_number() % 95) : text[place - VALUE_BYTES / 2];
}

static void write_entries(long count, int at_random, int to_disk, size_t value_bytes)
{
    static size_t place;
    char *error = NULL;
    leveldb_writeoptions_t *how = leveldb_writeoptions_create();
    leveldb_writeoptions_set_sync(how, (unsigned char)to_disk);
    for (long index = 0; index < count; index++) {
        char key[KEY_BYTES + 8];
        snprintf(key, sizeof key, "%016ld", at_random ? next_entry() : index);
        place = place + value_bytes > sizeof text ? 0 : place;
        leveldb_put(database, how, key, KEY_BYTES, text + place, value_bytes, &error);
        check(error);
        place += value_bytes;
    }
    leveldb_writeoptions_destroy(how);
}

static long read_at_random(void)
{
    leveldb_readoptions_t *how = leveldb_readoptions_create();
    long found = 0;
    for (long index = 0; index < entry_count; index++) {
        char key[KEY_BYTES + 8], *error = NULL;
        size_t length;
        snprintf(key, sizeof key, "%016ld", next_entry());
        char *got = leveldb_get(database, how, key, KEY_BYTES, &length, &error);
        check(error);
        found += got != NULL;
        leveldb_free(got);
    }
    leveldb_readoptions_destroy(how);
    return found;
}

static long read_in_order(int in_reverse)
{
    leveldb_readoptions_t *how = leveldb_readoptions_create();
    leveldb_iterator_t *place = leveldb_create_iterator(database, how);
    long sum = 0;
    for (in_reverse ? leveldb_iter_seek_to_last(place) : leveldb_iter_seek_to_first(place); leveldb_iter_valid(place);
         in_reverse ? leveldb_iter_prev(place) : leveldb_iter_next(place)) {
        size_t length;
        sum += leveldb_iter_value(place, &length)[0];
    }
    leveldb_iter_destroy(place);
    leveldb_readoptions_destroy(how);
    return sum;
}

int main(int argc, char **argv)
{
    if (argc != 3 || (entry_count = atol(argv[2])) < 1) {
        fprintf(stderr, "leveldb_bench FOLDER ENTRIES\n");
        return 2;
    }
    folder = argv[1];
    options = leveldb_options_create();
    leveldb_options_set_create_if_missing(options, 1);
    leveldb_options_set_error_if_exists(options, 1);
    make_text();
    long fewer = (entry_count + FEWER - 1) / FEWER;
    open_new();
    write_entries(entry_count, 0, 0, VALUE_BYTES);
    open_new();
    write_entries(fewer, 1, 1, VALUE_BYTES);
    open_new();
    write_entries(entry_count, 1, 0, VALUE_BYTES);
    write_entries(entry_count, 1, 0, VALUE_BYTES);
    long found = read_at_random() + read_at_random();
    long forward = read_in_order(0), backward = read_in_order(1);
    leveldb_compact_range(database, NULL, 0, NULL, 0);
    found += read_at_random();
    int same = forward == backward && read_in_order(0) == forward && read_in_order(1) == forward;
    open_new();
    write_entries(fewer, 1, 0, LARGE_BYTES);
    leveldb_close(database);
    leveldb_options_destroy(options);
    printf("%ld found, %ld\n", found, forward);
    return !same;
}
