// Hazard: after a peak, 8 threads free (argument "free") or allocate ("allocate") a part each and
// then wait, while the first thread allocates to a new peak. Counts: the most bytes that were held.
// build: -pthread
#include "witness.h"

#include <pthread.h>
#include <string.h>

enum { THREADS = 8, FIRST = 16 << 10, SECOND = 15 << 10, SIZE = 1000 };
static struct w_block first[FIRST], second[SECOND], own[THREADS][700];
static pthread_barrier_t step;
static int frees;

static W_SITE struct w_block w_held(void) {
    struct w_block block = w_malloc(SIZE);
    __asm__ volatile("" ::: "memory");
    return block;
}

static void *work(void *index) {
    unsigned me = (unsigned)(uintptr_t)index;
    pthread_barrier_wait(&step); // the first peak is past
    if (frees)
        for (unsigned i = me; i < FIRST; i += THREADS) w_free(first[i]);
    else
        for (unsigned i = 0; i < 700; i++) own[me][i] = w_held();
    pthread_barrier_wait(&step); // all have done their part
    pthread_barrier_wait(&step); // the second peak is past
    return NULL;
}

int main(int argc, char **argv) {
    frees = argc > 1 && strcmp(argv[1], "free") == 0;
    pthread_t ids[THREADS];
    pthread_barrier_init(&step, NULL, THREADS + 1);
    for (unsigned t = 0; t < THREADS; t++)
        W_REQUIRE(pthread_create(&ids[t], NULL, work, (void *)(uintptr_t)t) == 0);
    for (unsigned i = 0; i < FIRST; i++) first[i] = w_held();
    uint64_t most = w_total.alloc_bytes - w_total.free_bytes;
    if (!frees)
        for (unsigned i = 0; i < FIRST; i++) w_free(first[i]);
    pthread_barrier_wait(&step);
    pthread_barrier_wait(&step);
    for (unsigned i = 0; i < SECOND; i++) second[i] = w_held();
    uint64_t held = w_total.alloc_bytes - w_total.free_bytes;
    if (held > most) most = held;
    for (unsigned i = 0; i < SECOND; i++) w_free(second[i]);
    pthread_barrier_wait(&step);
    for (unsigned t = 0; t < THREADS; t++) pthread_join(ids[t], NULL);
    w_say("", "peak_bytes", most);
    return 0;
}
