// Hazard: blocks that found no room in small tables are freed after a reset. Counts: the 100 blocks
// allocated after the last reset; argument: resets.
#include "witness.h"
#include <dlfcn.h>
#include <pthread.h>

// Tallies are per thread and stack: 19 200 of them.
enum { LEVELS = 7, STACKS = 1 << LEVELS, THREADS = 150 };
static void *blocks[THREADS][STACKS];
static pthread_barrier_t all_started;

static W_SITE void path(unsigned which, unsigned levels, void **place) {
    if (levels == 0) {
        *place = malloc(40);
    } else if (which & 1) {
        path(which >> 1, levels - 1, place);
        __asm__ volatile("" ::: "memory");
    } else {
        path(which >> 1, levels - 1, place);
        __asm__ volatile("nop" ::: "memory");
    }
}

static void *allocate(void *own) {
    void **places = own;
    for (unsigned i = 0; i < STACKS; i++) path(i, LEVELS, &places[i]);
    pthread_barrier_wait(&all_started);
    return NULL;
}

int main(int argc, char **argv) {
    void (*reset)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "heapwise_reset");
    unsigned resets = (unsigned)w_argument(argc, argv, 1, 1);
    pthread_t threads[THREADS];
    pthread_barrier_init(&all_started, NULL, THREADS);
    for (unsigned i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, allocate, blocks[i]);
    for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < resets && reset; i++) reset();
    for (unsigned i = 0; i < THREADS; i++)
        for (unsigned j = 0; j < STACKS; j++) free(blocks[i][j]);
    for (unsigned i = 0; i < 100; i++) w_malloc(1 + i);
    w_report("");
    return 0;
}
