/* A lock that all threads of a process share. */
#include "base/process_lock.h"
#include "base/futex.h"
#include "base/shared.h"
#include "base/state.h"

void process_lock(void)
{
	u32 *lock = &PROCESS_INITIAL->lock, free = 0;
	if (!traces() ||
		__atomic_compare_exchange_n(lock, &free, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	/* The value 2 means that a thread waits. */
	while (__atomic_exchange_n(lock, 2, __ATOMIC_ACQUIRE))
		futex_wait(lock, 2, 100);
}

void process_unlock(void)
{
	u32 *lock = &PROCESS_INITIAL->lock;
	if (traces() && __atomic_exchange_n(lock, 0, __ATOMIC_RELEASE) == 2)
		futex_wake(lock, 1);
}
