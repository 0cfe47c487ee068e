// A balance is checked under a lock and changed under it, but the lock is released in between.
// fails: status 1
#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long balance = 100;

static long look(void)
{
	pthread_mutex_lock(&lock);
	long seen = balance;
	pthread_mutex_unlock(&lock);
	return seen;
}

static void *withdraw(void *amount)
{
	if (look() >= (long)amount) {
		pthread_mutex_lock(&lock);
		balance -= (long)amount;
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

int main(void)
{
	pthread_t one, other;
	pthread_create(&one, NULL, withdraw, (void *)80);
	pthread_create(&other, NULL, withdraw, (void *)70);
	pthread_join(one, NULL);
	pthread_join(other, NULL);
	printf("balance %ld\n", balance);
	return balance < 0;
}
