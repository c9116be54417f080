// THREADS threads exist at once, hold one block of 20 KB each, and replace small blocks in turn.
// Arguments: thousands of replacements for each thread, threads.
// build: -pthread
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096, SLOTS = 16 };
static uint64_t rounds;
static pthread_barrier_t all_hold, all_done;

static __attribute__((noinline)) void *request(size_t size) {
    unsigned char *block = malloc(size);
    if (!block) abort();
    block[0] = block[size - 1] = 1;
    return block;
}

static void *serve(void *index) {
    uint64_t state = ((uintptr_t)index + 1) * 0x9e3779b97f4a7c15ULL;
    void *held = request(20000), *slots[SLOTS] = {0};
    memset(held, 1, 20000);
    pthread_barrier_wait(&all_hold);
    for (uint64_t i = 0; i < rounds; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        free(slots[state % SLOTS]);
        slots[state % SLOTS] = request(16 + (state >> 20) % 240);
    }
    pthread_barrier_wait(&all_done);
    for (int i = 0; i < SLOTS; i++) free(slots[i]);
    free(held);
    return NULL;
}

int main(int argc, char **argv) {
    rounds = (argc > 1 ? strtoull(argv[1], NULL, 10) : 50) * 1000;
    unsigned threads = argc > 2 ? (unsigned)atoi(argv[2]) : 200;
    if (threads < 1 || threads > MOST) return 2;
    static pthread_t ids[MOST];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 << 10);
    pthread_barrier_init(&all_hold, NULL, threads);
    pthread_barrier_init(&all_done, NULL, threads);
    for (unsigned t = 0; t < threads; t++)
        if (pthread_create(&ids[t], &attributes, serve, (void *)(uintptr_t)t)) abort();
    for (unsigned t = 0; t < threads; t++) pthread_join(ids[t], NULL);
    printf("threads %u held %u\n", threads, threads * 20000);
    return 0;
}
