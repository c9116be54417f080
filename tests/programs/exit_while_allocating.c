// Hazard: exit() runs destructors while other threads are still inside malloc and free.
// Counts: `before_exit.alloc_objects`, a lower bound: the threads never stop. Arguments: threads,
// exit status.
// build: -pthread
#include "witness.h"
#include <pthread.h>
#include <time.h>

static void *forever(void *index) {
    uint64_t seed = (uintptr_t)index + 1;
    for (;;) w_free(w_malloc(w_random_size(&seed)));
    return NULL;
}

int main(int argc, char **argv) {
    uint64_t threads = w_argument(argc, argv, 1, 4);
    for (uintptr_t t = 0; t < threads; t++) {
        pthread_t id;
        W_REQUIRE(pthread_create(&id, NULL, forever, (void *)t) == 0);
    }
    nanosleep(&(struct timespec){0, 30000000}, NULL);
    w_say("before_exit.", "alloc_objects", w_get(&w_total.alloc_objects));
    exit((int)w_argument(argc, argv, 2, 0));
}
