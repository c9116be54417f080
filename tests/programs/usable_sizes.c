// Hazard: slack that is not a function of the requested size: aligned blocks, and blocks that
// realloc left where they were.
// Counts: all of it; `usable.alloc_bytes` and `usable.inuse_bytes` as the allocator says. Argument:
// events a thread.
// build: -pthread
#include "witness.h"

#include <pthread.h>

enum { THREADS = 2, SLOTS = 700 };
struct slot {
    struct w_block block;
    size_t usable;
};
static struct slot tables[THREADS][SLOTS];
static uint64_t events, allocated, live;

static void lose(struct slot *slot) {
    __atomic_fetch_sub(&live, slot->usable, __ATOMIC_RELAXED);
    slot->usable = 0;
}

static void gain(struct slot *slot) {
    slot->usable = slot->block.p ? malloc_usable_size(slot->block.p) : 0;
    w_add(&live, slot->usable);
    w_add(&allocated, slot->usable);
}

static size_t some_size(uint64_t *seed) {
    uint64_t random = w_random(seed);
    return random % 16 ? w_random_size(seed) : random / 16 % 3 * 8;
}

static void event(struct slot *slot, uint64_t *seed) {
    uint64_t random = w_random(seed);
    size_t size = some_size(seed);
    lose(slot);
    switch (random % 8) {
    case 0:
        w_free(slot->block);
        slot->block = w_calloc(1 + size % 3, 1 + size / 3);
        break;
    case 1:
        w_free(slot->block);
        slot->block = w_memalign((size_t)8 << random / 8 % 10, size);
        break;
    case 2:
        // Mostly in place: some bytes less, or more.
        w_realloc(&slot->block, 1 + slot->block.size * (50 + random / 8 % 80) / 100);
        break;
    case 3:
        w_realloc(&slot->block, 1 + size);
        break;
    case 4:
        w_free(slot->block);
        slot->block = (struct w_block){0};
        break;
    default:
        w_free(slot->block);
        slot->block = w_malloc(size);
    }
    gain(slot);
}

static void *run(void *table) {
    struct slot *slots = table;
    uint64_t seed = (uint64_t)(slots - tables[0]) + 1;
    for (uint64_t i = 0; i < events; i++) event(&slots[w_random(&seed) % SLOTS], &seed);
    return NULL;
}

int main(int argc, char **argv) {
    events = w_argument(argc, argv, 1, 20000);
    pthread_t ids[THREADS];
    for (int t = 0; t < THREADS; t++) W_REQUIRE(pthread_create(&ids[t], NULL, run, tables[t]) == 0);
    for (int t = 0; t < THREADS; t++) pthread_join(ids[t], NULL);
    for (int t = 0; t < THREADS; t++) {
        for (int i = 0; i < SLOTS; i += 3) {
            lose(&tables[t][i]);
            w_free(tables[t][i].block);
        }
    }
    w_report("");
    w_say("usable.", "alloc_bytes", w_get(&allocated));
    w_say("usable.", "inuse_bytes", w_get(&live));
    return 0;
}
