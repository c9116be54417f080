// Hazard: many threads that allocate all the time, to be attached to. Arguments: threads, and
// `never` when they never wait in a system call. Prints `ready` when all run; ends with its input.
// build: -pthread
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int waits = 1;
static pthread_barrier_t started;

__attribute__((noinline)) static void w_replace(void **place, size_t size) {
    free(*place);
    *place = malloc(size);
    *(volatile char *)*place = 1;
}

static void *work(void *number) {
    unsigned seed = (unsigned)(size_t)number * 7919 + 1;
    void *kept[64] = {0};
    pthread_barrier_wait(&started);
    for (unsigned long round = 0;; round++) {
        seed = seed * 1103515245 + 12345;
        w_replace(&kept[seed >> 8 & 63], 16 + (seed >> 16) % 500);
        struct timespec pause = {0, 2000000};
        if (waits && round % 200 == 0) nanosleep(&pause, NULL);
    }
    return NULL;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 4;
    waits = argc < 3 || strcmp(argv[2], "never") != 0;
    pthread_barrier_init(&started, NULL, (unsigned)threads + 1);
    for (int i = 0; i < threads; i++) {
        pthread_t id;
        pthread_create(&id, NULL, work, (void *)(size_t)i);
    }
    pthread_barrier_wait(&started);
    puts("ready");
    fflush(stdout);
    // Where no thread may wait, neither does this one.
    static void *block;
    while (!waits) w_replace(&block, 100);
    return getchar() == EOF;
}
