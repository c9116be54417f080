// Hazard: THREADS threads hold less than any step of the probe's each, and together a lot. Counts:
// the most bytes that all of them held. Argument: threads.
// build: -pthread
#include "witness.h"

#include <pthread.h>

enum { MOST = 2048, BLOCKS = 9 };
static pthread_barrier_t all_hold, all_may_free;

static W_SITE struct w_block w_held(size_t size) {
    struct w_block block = w_malloc(size);
    __asm__ volatile("" ::: "memory");
    return block;
}

static void *hold(void *index) {
    struct w_block blocks[BLOCKS];
    uint64_t seed = (uintptr_t)index + 1;
    for (int i = 0; i < BLOCKS; i++) blocks[i] = w_held(1000 + w_random(&seed) % 4000);
    pthread_barrier_wait(&all_hold);
    pthread_barrier_wait(&all_may_free);
    for (int i = 0; i < BLOCKS; i++) w_free(blocks[i]);
    return NULL;
}

int main(int argc, char **argv) {
    unsigned threads = (unsigned)w_argument(argc, argv, 1, 200);
    W_REQUIRE(threads >= 1 && threads <= MOST);
    static pthread_t ids[MOST];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 128 << 10);
    pthread_barrier_init(&all_hold, NULL, threads + 1);
    pthread_barrier_init(&all_may_free, NULL, threads + 1);
    for (unsigned t = 0; t < threads; t++)
        W_REQUIRE(pthread_create(&ids[t], &attributes, hold, (void *)(uintptr_t)t) == 0);
    pthread_barrier_wait(&all_hold);
    uint64_t held = w_total.alloc_bytes - w_total.free_bytes;
    pthread_barrier_wait(&all_may_free);
    for (unsigned t = 0; t < threads; t++) pthread_join(ids[t], NULL);
    w_say("", "peak_bytes", held);
    return 0;
}
