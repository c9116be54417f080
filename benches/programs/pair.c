// What one malloc/free pair costs a thread: `pair KIND THREADS NS` a line, best of five. tight: the
// block just freed is reused; set: 1000 blocks of mixed sizes alive, oldest replaced. Arguments:
// most threads, pairs.
// build: -pthread
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SET = 1000, ROUNDS = 5, MAX_THREADS = 64 };
static uint64_t pairs;
static pthread_barrier_t start;

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void keep(void *p) { __asm__ volatile("" : : "r"(p) : "memory"); }

static __attribute__((noinline)) void tight(void) {
    for (uint64_t i = 0; i < pairs; i++) {
        void *p = malloc(64);
        keep(p);
        free(p);
    }
}

static __attribute__((noinline)) void working_set(void) {
    void *blocks[SET] = {0};
    for (uint64_t i = 0, slot = 0; i < pairs; i++) {
        free(blocks[slot]);
        blocks[slot] = malloc(16 + (i * 2654435761u >> 8) % 240);
        keep(blocks[slot]);
        slot = slot + 1 == SET ? 0 : slot + 1;
    }
    for (int i = 0; i < SET; i++) free(blocks[i]);
}

// Each thread notes its own times: on a busy machine the starter may wake up after the work is
// done.
struct worker {
    void (*work)(void);
    double began, ended;
};

static void *run(void *argument) {
    struct worker *self = argument;
    pthread_barrier_wait(&start);
    self->began = seconds();
    self->work();
    self->ended = seconds();
    return NULL;
}

static double nanoseconds(void (*work)(void), int threads) {
    pthread_t ids[MAX_THREADS];
    struct worker workers[MAX_THREADS];
    double sum = 0;
    pthread_barrier_init(&start, NULL, (unsigned)threads);
    for (int t = 0; t < threads; t++) {
        workers[t].work = work;
        if (pthread_create(&ids[t], NULL, run, &workers[t])) abort();
    }
    for (int t = 0; t < threads; t++) {
        pthread_join(ids[t], NULL);
        sum += workers[t].ended - workers[t].began;
    }
    pthread_barrier_destroy(&start);
    return sum / threads * 1e9 / (double)pairs;
}

static void measure(const char *kind, void (*work)(void), int threads) {
    double best = 1e30;
    for (int round = 0; round < ROUNDS; round++) {
        double ns = nanoseconds(work, threads);
        if (ns < best) best = ns;
    }
    printf("pair %s %d %.2f\n", kind, threads, best);
    fflush(stdout);
}

int main(int argc, char **argv) {
    int most = argc > 1 ? atoi(argv[1]) : 2;
    pairs = argc > 2 ? strtoull(argv[2], NULL, 0) : 3000000;
    if (most < 1 || most > MAX_THREADS) return 2;
    for (int threads = 1; threads <= most; threads *= 2) {
        measure("tight", tight, threads);
        measure("set", working_set, threads);
    }
    return 0;
}
