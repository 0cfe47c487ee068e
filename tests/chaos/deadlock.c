// Two transfers lock the same two accounts in opposite orders.
// fails: never ends
#include <pthread.h>
#include <stdio.h>

struct account {
	pthread_mutex_t lock;
	long balance;
};
static struct account first = { PTHREAD_MUTEX_INITIALIZER, 100 }, second = { PTHREAD_MUTEX_INITIALIZER, 100 };

static void transfer(struct account *from, struct account *to)
{
	pthread_mutex_lock(&from->lock);
	pthread_mutex_lock(&to->lock);
	from->balance -= 10;
	to->balance += 10;
	pthread_mutex_unlock(&to->lock);
	pthread_mutex_unlock(&from->lock);
}

static void *there(void *unused)
{
	transfer(&first, &second);
	return unused;
}

static void *back(void *unused)
{
	transfer(&second, &first);
	return unused;
}

int main(void)
{
	pthread_t threads[2];
	pthread_create(&threads[0], NULL, there, NULL);
	pthread_create(&threads[1], NULL, back, NULL);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	printf("%ld %ld\n", first.balance, second.balance);
	return 0;
}
