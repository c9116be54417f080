// Hazard: a thousand threads come and go, more than any per-thread table holds at once.
// Counts: all of it; half of each thread's blocks is freed by the main thread after its death.
// Arguments: threads, alive at once.
// build: -pthread
#include "witness.h"
#include <pthread.h>

enum { MAX_ALIVE = 128, BLOCKS = 20 };
static struct w_block left[MAX_ALIVE][BLOCKS];

static void *live(void *place) {
    struct w_block *mine = (struct w_block *)place;
    for (int i = 0; i < BLOCKS; i++) {
        mine[i] = w_malloc(50 + (size_t)i);
        w_free(w_malloc(500));
    }
    return NULL;
}

int main(int argc, char **argv) {
    uint64_t threads = w_argument(argc, argv, 1, 1000);
    uint64_t alive = w_argument(argc, argv, 2, 16);
    W_REQUIRE(alive >= 1 && alive <= MAX_ALIVE);
    pthread_t ids[MAX_ALIVE];
    for (uint64_t started = 0; started < threads;) {
        uint64_t batch = threads - started < alive ? threads - started : alive;
        for (uint64_t t = 0; t < batch; t++) W_REQUIRE(pthread_create(&ids[t], NULL, live, left[t]) == 0);
        for (uint64_t t = 0; t < batch; t++) {
            pthread_join(ids[t], NULL);
            for (int i = 0; i < BLOCKS; i += 2) w_free(left[t][i]);
        }
        started += batch;
    }
    w_report("");
    return 0;
}
