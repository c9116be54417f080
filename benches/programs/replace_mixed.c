// Threads replace random blocks of mixed sizes in tables of their own, and hand every 16th block to
// the next thread's table: the classic load of a multi-threaded server. Arguments: scale, threads.
// build: -pthread
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { SLOTS = 10000, MAX_THREADS = 64 };
static unsigned char *tables[MAX_THREADS][SLOTS];
static int threads;
static uint64_t steps;

static uint64_t next(uint64_t *state) {
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return *state;
}

// 8 B … 128 B mostly, up to 1 KiB sometimes, up to 16 KiB rarely.
static size_t mixed_size(uint64_t random) {
    unsigned kind = random & 127;
    size_t limit = kind < 112 ? 120 : kind < 126 ? 1016 : 16376;
    return 8 + (random >> 8) % limit;
}

static __attribute__((noinline)) unsigned char *request(size_t size) {
    unsigned char *p = malloc(size);
    if (!p) abort();
    p[0] = 1;
    p[size - 1] = 1;
    return p;
}

static void *serve(void *index) {
    uintptr_t self = (uintptr_t)index, neighbour = (self + 1) % (uintptr_t)threads;
    uint64_t state = (self + 1) * 0x9e3779b97f4a7c15ULL;
    for (uint64_t i = 0; i < steps; i++) {
        uint64_t random = next(&state);
        uintptr_t table = i % 16 ? self : neighbour;
        unsigned char *fresh = request(mixed_size(random >> 20));
        free(__atomic_exchange_n(&tables[table][random % SLOTS], fresh, __ATOMIC_ACQ_REL));
    }
    return NULL;
}

int main(int argc, char **argv) {
    int scale = argc > 1 ? atoi(argv[1]) : 40;
    threads = argc > 2 ? atoi(argv[2]) : 2;
    if (threads < 1 || threads > MAX_THREADS) return 2;
    steps = (uint64_t)scale * 1000000 / (uint64_t)threads;
    pthread_t ids[MAX_THREADS];
    for (uintptr_t t = 0; t < (uintptr_t)threads; t++)
        if (pthread_create(&ids[t], NULL, serve, (void *)t)) abort();
    for (int t = 0; t < threads; t++) pthread_join(ids[t], NULL);
    uint64_t left = 0;
    for (int t = 0; t < threads; t++)
        for (int i = 0; i < SLOTS; i++) left += tables[t][i] != NULL;
    printf("%llu blocks left\n", (unsigned long long)left);
    return 0;
}
