// Atomics of every order, a spin lock, a lock-free stack, and a plain race.
#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

struct node { node *next; long value; };
static std::atomic<node *> top{nullptr};
static std::atomic<long> exact{0};
static std::atomic_flag lock = ATOMIC_FLAG_INIT;
static long guarded, *volatile racy = new long(0);

static void work(int number) {
    for (int round = 0; round < 100000; round++) {
        exact.fetch_add(round ^ number, std::memory_order_relaxed);
        *racy += 1;
        if (round % 64 == 0) {
            while (lock.test_and_set(std::memory_order_acquire)) {
            }
            guarded += number;
            lock.clear(std::memory_order_release);
            node *fresh = new node{top.load(), round};
            while (!top.compare_exchange_weak(fresh->next, fresh)) {
            }
        }
    }
}

int main() {
    std::vector<std::thread> threads;
    for (int number = 0; number < 4; number++) {
        threads.emplace_back(work, number);
    }
    for (auto &thread : threads) {
        thread.join();
    }
    long sum = 0;
    for (node *at = top; at; at = at->next) {
        sum = sum * 31 + at->value;
    }
    printf("%ld %ld %ld %ld\n", exact.load(), guarded, *racy, sum);
}
