// Hazard: a long life: threads come and go, free each other's blocks, realloc, recurse, fork; in
// bursts, as a server does.
// Counts: all of it; the forked children allocate too, but these blocks are not counted. The sets
// of stacks and sizes are finite, so unbounded growth is the profiler's. Arguments: seconds,
// operations in a burst of 10 ms, seed.
// build: -pthread
#include "witness.h"
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>

enum { WORKERS = 2, SLOTS = 20000, SIZES = 24, DEEPEST = 24 };
static uint64_t *slots[SLOTS]; // a block's first word is its size: one atomic exchange hands over both
static uint64_t end_ms, burst, first_seed;

static uint64_t milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

// 24 sizes from 16 bytes to about 190 KB.
static size_t some_size(uint64_t *seed) {
    uint64_t kind = w_random(seed) % 100;
    uint64_t class = w_random(seed) % (kind < 85 ? 8 : kind < 99 ? 16 : SIZES);
    return (size_t)16 + ((size_t)(class % 2 + 2) << (class / 2 + 4));
}

static struct w_block fresh(uint64_t *seed) {
    size_t size = some_size(seed);
    uint64_t how = w_random(seed) % 16;
    struct w_block block = how == 0 ? w_calloc(1, size) : how == 1 ? w_memalign(64, size) : w_malloc(size);
    W_REQUIRE(block.p);
    if (how == 2) w_realloc(&block, some_size(seed));
    *(uint64_t *)block.p = block.size;
    return block;
}

static __attribute__((noinline)) void replace(uint64_t *seed, uint64_t depth) {
    if (depth) {
        replace(seed, depth - 1);
        __asm__ volatile("" ::: "memory");
        return;
    }
    struct w_block block = fresh(seed);
    uint64_t *old = __atomic_exchange_n(&slots[w_random(seed) % SLOTS], (uint64_t *)block.p, __ATOMIC_ACQ_REL);
    if (old) w_free((struct w_block){old, *old});
}

static void *brief(void *argument) {
    uint64_t seed = (uintptr_t)argument;
    for (int i = 0; i < 50; i++) replace(&seed, w_random(&seed) % 4);
    return NULL;
}

static void *work(void *index) {
    uint64_t seed = first_seed * 7919 + (uintptr_t)index + 1;
    struct timespec pause = {0, 10000000};
    for (uint64_t turn = 0; milliseconds() < end_ms; turn++) {
        for (uint64_t i = 0; i < burst; i++) replace(&seed, w_random(&seed) % DEEPEST);
        if (turn % 10 == 0) {
            pthread_t thread;
            W_REQUIRE(!pthread_create(&thread, NULL, brief, (void *)(uintptr_t)(w_random(&seed) | 1)));
            pthread_join(thread, NULL);
        }
        nanosleep(&pause, NULL);
    }
    return NULL;
}

// One child a second, which allocates, frees what it inherited and ends.
static void beget(void) {
    while (milliseconds() < end_ms) {
        pid_t pid = fork();
        W_REQUIRE(pid >= 0);
        if (pid == 0) {
            for (int i = 0; i < SLOTS; i += 100) free(__atomic_exchange_n(&slots[i], NULL, __ATOMIC_ACQ_REL));
            brief((void *)7);
            _exit(0);
        }
        int status = 0;
        W_REQUIRE(waitpid(pid, &status, 0) == pid && status == 0);
        sleep(1);
    }
}

int main(int argc, char **argv) {
    end_ms = milliseconds() + 1000 * w_argument(argc, argv, 1, 10);
    burst = w_argument(argc, argv, 2, 1000);
    first_seed = w_argument(argc, argv, 3, 1);
    pthread_t workers[WORKERS];
    for (uintptr_t i = 0; i < WORKERS; i++) W_REQUIRE(!pthread_create(&workers[i], NULL, work, (void *)i));
    beget();
    for (int i = 0; i < WORKERS; i++) pthread_join(workers[i], NULL);
    w_report("");
    return 0;
}
