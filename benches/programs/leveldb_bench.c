/* What LevelDB's own db_bench does by default, through the library's C interface: entries of 100 bytes written in order and at random,
 * then read at random, in order and in reverse. The arguments are a folder that is not there yet and the number of entries. */
#include <leveldb/c.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_BYTES = 16, VALUE_BYTES = 100 };

static leveldb_t *database;
static long entry_count;
static char value[VALUE_BYTES];
static uint64_t state = 301;

static void check(char *error)
{
    if (error != NULL) {
        fprintf(stderr, "leveldb: %s\n", error);
        exit(1);
    }
}

static long next_entry(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (long)(state % (uint64_t)entry_count);
}

static void fill(int at_random)
{
    leveldb_writeoptions_t *options = leveldb_writeoptions_create();
    for (long index = 0; index < entry_count; index++) {
        char key[KEY_BYTES + 8], *error = NULL;
        long entry = at_random ? next_entry() : index;
        snprintf(key, sizeof key, "%016ld", entry);
        /* Half of a value can be compressed away, as in db_bench. */
        for (int place = 0; place < VALUE_BYTES / 2; place++)
            value[place] = (char)(' ' + next_entry() % 95);
        leveldb_put(database, options, key, KEY_BYTES, value, VALUE_BYTES, &error);
        check(error);
    }
    leveldb_writeoptions_destroy(options);
}

static long read_at_random(void)
{
    leveldb_readoptions_t *options = leveldb_readoptions_create();
    long found = 0;
    for (long index = 0; index < entry_count; index++) {
        char key[KEY_BYTES + 8], *error = NULL;
        size_t length;
        snprintf(key, sizeof key, "%016ld", next_entry());
        char *got = leveldb_get(database, options, key, KEY_BYTES, &length, &error);
        check(error);
        found += got != NULL;
        leveldb_free(got);
    }
    leveldb_readoptions_destroy(options);
    return found;
}

static long read_in_order(int in_reverse)
{
    leveldb_readoptions_t *options = leveldb_readoptions_create();
    leveldb_iterator_t *place = leveldb_create_iterator(database, options);
    long sum = 0;
    for (in_reverse ? leveldb_iter_seek_to_last(place) : leveldb_iter_seek_to_first(place); leveldb_iter_valid(place);
         in_reverse ? leveldb_iter_prev(place) : leveldb_iter_next(place)) {
        size_t length;
        sum += leveldb_iter_value(place, &length)[0];
    }
    leveldb_iter_destroy(place);
    leveldb_readoptions_destroy(options);
    return sum;
}

int main(int argc, char **argv)
{
    char *error = NULL;
    if (argc != 3 || (entry_count = atol(argv[2])) < 1) {
        fprintf(stderr, "leveldb_bench FOLDER ENTRIES\n");
        return 2;
    }
    memset(value, 'x', sizeof value);
    leveldb_options_t *options = leveldb_options_create();
    leveldb_options_set_create_if_missing(options, 1);
    leveldb_options_set_error_if_exists(options, 1);
    database = leveldb_open(options, argv[1], &error);
    check(error);
    fill(0);
    fill(1);
    long found = read_at_random();
    long forward = read_in_order(0), backward = read_in_order(1);
    leveldb_close(database);
    leveldb_options_destroy(options);
    printf("%ld found, %ld\n", found, forward);
    return forward != backward;
}
