/* Searches all files of a folder for a word with several threads, each of which takes the next file
 * from a common list:
 *
 *     file_scan THREADS WORD FOLDER */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_FILES = 65536, MOST_THREADS = 64, PIECE = 65536 };

static char *files[MOST_FILES];
static int file_count, next_file;
static long found_count, byte_count;
static const char *word;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void collect(const char *folder)
{
    DIR *list = opendir(folder);
    struct dirent *entry;
    while (list != NULL && (entry = readdir(list)) != NULL) {
        char path[4096];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_type == DT_DIR)
            collect(path);
        else if (entry->d_type == DT_REG && file_count < MOST_FILES)
            files[file_count++] = strdup(path);
    }
    if (list != NULL)
        closedir(list);
}

/* Misses a word that crosses two pieces: that costs nothing here and is the same each time. */
static long scan(const char *path, char *buffer, long *bytes)
{
    long found = 0;
    ssize_t got;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return 0;
    while ((got = read(descriptor, buffer, PIECE)) > 0) {
        *bytes += got;
        for (char *at = buffer; (at = memmem(at, (size_t)(buffer + got - at), word, strlen(word))) != NULL; at++)
            found++;
    }
    close(descriptor);
    return found;
}

static void *work(void *unused)
{
    char *buffer = malloc(PIECE);
    (void)unused;
    for (;;) {
        long bytes = 0;
        pthread_mutex_lock(&lock);
        int mine = next_file++;
        pthread_mutex_unlock(&lock);
        if (mine >= file_count || buffer == NULL)
            break;
        long found = scan(files[mine], buffer, &bytes);
        pthread_mutex_lock(&lock);
        found_count += found;
        byte_count += bytes;
        pthread_mutex_unlock(&lock);
    }
    free(buffer);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[MOST_THREADS];
    int thread_count = argc == 4 ? atoi(argv[1]) : 0;
    if (thread_count < 1 || thread_count > MOST_THREADS) {
        fprintf(stderr, "file_scan THREADS WORD FOLDER\n");
        return 2;
    }
    word = argv[2];
    collect(argv[3]);
    for (int index = 0; index < thread_count; index++) {
        if (pthread_create(&threads[index], NULL, work, NULL) != 0) {
            perror("pthread_create");
            return 1;
        }
    }
    for (int index = 0; index < thread_count; index++)
        pthread_join(threads[index], NULL);
    printf("%d files, %ld bytes, %ld found\n", file_count, byte_count, found_count);
    return 0;
}
