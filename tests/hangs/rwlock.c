/* One thread holds a read-write lock for reading and wants it for writing. The other one also holds
 * it for reading, and wants a mutex that the first one holds. */
#include <pthread.h>
#include <unistd.h>

static pthread_rwlock_t table = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;

static void *read_and_log(void *unused)
{
	pthread_rwlock_rdlock(&table);
	pthread_barrier_wait(&both);
	write(1, "ready\n", 6);
	pthread_mutex_lock(&log_lock);
	return unused;
}

static void log_and_write(void)
{
	pthread_mutex_lock(&log_lock);
	pthread_barrier_wait(&both);
	pthread_rwlock_wrlock(&table);
}

int main(void)
{
	pthread_t thread;

	pthread_barrier_init(&both, NULL, 2);
	pthread_create(&thread, NULL, read_and_log, NULL);
	log_and_write();
	return 0;
}
