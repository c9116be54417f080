// Holds 48 MiB that it has written to, on two threads, and 16 MiB that it has not; then allocates a
// little at a time, so that it answers questions, until its input ends.
// build: -pthread
#include "witness.h"

#include <poll.h>
#include <pthread.h>

static void hold(size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct w_block block = w_malloc(16 * 1024);
        memset(block.p, 1, block.size);
    }
}

static void *second(void *holding) {
    char array[64 * 1024];
    memset(array, 1, sizeof array);
    __asm__ volatile("" ::"r"(array) : "memory");
    hold(1024);
    pthread_barrier_wait(holding);
    pause();
    return NULL;
}

int main(void) {
    pthread_t thread;
    pthread_barrier_t holding;
    pthread_barrier_init(&holding, NULL, 2);
    pthread_create(&thread, NULL, second, &holding);
    hold(2048);
    w_malloc(16 << 20);
    pthread_barrier_wait(&holding);
    w_report("");
    struct pollfd in = {0, POLLIN, 0};
    while (poll(&in, 1, 1) == 0)
        for (int i = 0; i < 100; i++) w_free(w_malloc(1000));
    return 0;
}
