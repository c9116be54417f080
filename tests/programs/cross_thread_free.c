// Hazard: every thread frees blocks that other threads allocated, with no lock in between.
// Counts: all of it; an event is one malloc or one free. Arguments: threads, events, seed.
// build: -pthread
#include "witness.h"
#include <pthread.h>

enum { SLOTS = 4096, MAX_THREADS = 256 };
static uint64_t *slots[SLOTS]; // a block's first word is its size: one atomic exchange hands over both
static uint64_t events_each, first_seed;

static void *replace(void *index) {
    uint64_t seed = first_seed * 7919 + (uintptr_t)index + 1;
    for (uint64_t done = 0; done < events_each; done++) {
        uint64_t size = sizeof(uint64_t) + w_random(&seed) % 256;
        uint64_t *fresh = (uint64_t *)w_malloc(size).p;
        W_REQUIRE(fresh);
        *fresh = size;
        uint64_t *old = __atomic_exchange_n(&slots[w_random(&seed) % SLOTS], fresh, __ATOMIC_ACQ_REL);
        if (!old) continue;
        w_free((struct w_block){old, *old});
        done++;
    }
    return NULL;
}

int main(int argc, char **argv) {
    uint64_t threads = w_argument(argc, argv, 1, 4);
    W_REQUIRE(threads >= 1 && threads <= MAX_THREADS);
    events_each = w_argument(argc, argv, 2, 400000) / threads;
    first_seed = w_argument(argc, argv, 3, 1);
    pthread_t ids[MAX_THREADS];
    for (uintptr_t t = 0; t < threads; t++)
        W_REQUIRE(pthread_create(&ids[t], NULL, replace, (void *)t) == 0);
    for (uintptr_t t = 0; t < threads; t++) pthread_join(ids[t], NULL);
    w_report("");
    return 0;
}
