// Hazard: events of every kind in random order, from many stacks and threads: malloc, calloc,
// realloc, aligned blocks, frees of other threads' blocks, a fork, switches of the mode, a reset.
// The same events in every run.
// Counts: blocks and bytes allocated since the reset and still live of those. Arguments: threads,
// rounds.
// build: -pthread -I{here}/../../crates/probe/include
#include "heapwise.h"
#include "witness.h"

#include <pthread.h>
#include <sys/wait.h>

enum { MOST_THREADS = 16, SLOTS = 512, PHASES = 5, RESET_AFTER = 2 };
struct slot {
    struct w_block block;
    int phase;
};
static struct slot tables[MOST_THREADS][SLOTS];
static struct w_account account;
static unsigned threads;
static uint64_t rounds;
static pthread_barrier_t barrier;

// Counts what w_malloc and similar functions do not: whether a block is older than the reset.
static void forget(struct slot *slot, int phase) {
    if (!slot->block.p) return;
    if (slot->phase >= RESET_AFTER || phase < RESET_AFTER) {
        w_add(&account.free_objects, 1);
        w_add(&account.free_bytes, slot->block.size);
    }
}

static void remember(struct slot *slot, int phase) {
    slot->phase = phase;
    if (!slot->block.p) return;
    w_add(&account.alloc_objects, 1);
    w_add(&account.alloc_bytes, slot->block.size);
}

static W_SITE void w_any(struct slot *slot, uint64_t random, uint64_t *seed, int phase) {
    size_t size = w_random_size(seed);
    forget(slot, phase);
    switch (random % 8) {
    case 0:
        w_free(slot->block);
        slot->block = w_calloc(1 + size % 7, 1 + size / 7);
        break;
    case 1:
        w_free(slot->block);
        slot->block = w_memalign((size_t)16 << random / 8 % 8, size);
        break;
    case 2:
    case 3:
        w_realloc(&slot->block, size);
        break;
    default:
        w_free(slot->block);
        slot->block = w_malloc(size);
    }
    remember(slot, phase);
}

// Two call sites a level: one of 256 stacks.
static W_SITE void w_deep(unsigned which, unsigned levels, struct slot *slot, uint64_t random, uint64_t *seed,
                          int phase) {
    if (levels == 0) {
        w_any(slot, random, seed, phase);
    } else if (which & 1) {
        w_deep(which >> 1, levels - 1, slot, random, seed, phase);
        __asm__ volatile("" ::: "memory");
    } else {
        w_deep(which >> 1, levels - 1, slot, random, seed, phase);
        __asm__ volatile("nop" ::: "memory");
    }
}

static void events(unsigned self, int phase) {
    uint64_t seed = (self + 1) * 7919 + (uint64_t)phase * 104729;
    for (uint64_t i = 0; i < rounds; i++) {
        uint64_t random = w_random(&seed);
        w_deep(random >> 8 & 255, 8, &tables[self][random >> 20 & (SLOTS - 1)], random >> 40, &seed, phase);
    }
}

// Frees every third block of the thread before, which waits meanwhile.
static void free_of_other(unsigned self, int phase) {
    struct slot *other = tables[(self + threads - 1) % threads];
    for (int i = 0; i < SLOTS; i += 3) {
        forget(&other[i], phase);
        w_free(other[i].block);
        other[i].block = (struct w_block){0};
    }
}

static void control(int phase) {
    if (phase == 1) {
        pid_t child = fork();
        if (child == 0) {
            events(0, phase);
            _exit(0);
        }
        W_REQUIRE(child > 0 && waitpid(child, NULL, 0) == child);
    } else if (phase == RESET_AFTER) {
        hw_reset();
        account = (struct w_account){0};
    } else if (phase == 3) {
        hw_set_mode(HEAPWISE_LOG, 0);
    } else if (phase == 4) {
        hw_set_mode(HEAPWISE_EXACT, 0);
    }
}

static void *run(void *index) {
    unsigned self = (unsigned)(uintptr_t)index;
    for (int phase = 0; phase < PHASES; phase++) {
        pthread_barrier_wait(&barrier);
        if (self == 0) control(phase);
        pthread_barrier_wait(&barrier);
        events(self, phase);
        pthread_barrier_wait(&barrier);
        free_of_other(self, phase);
    }
    return NULL;
}

int main(int argc, char **argv) {
    threads = (unsigned)w_argument(argc, argv, 1, 4);
    rounds = w_argument(argc, argv, 2, 4000);
    W_REQUIRE(threads >= 1 && threads <= MOST_THREADS);
    pthread_barrier_init(&barrier, NULL, threads);
    pthread_t ids[MOST_THREADS];
    for (unsigned t = 1; t < threads; t++) W_REQUIRE(pthread_create(&ids[t], NULL, run, (void *)(uintptr_t)t) == 0);
    run(NULL);
    for (unsigned t = 1; t < threads; t++) pthread_join(ids[t], NULL);
    w_report_account("", &account);
    return 0;
}
