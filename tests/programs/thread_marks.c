// Hazard: none; threads that allocate and free until all of them meet, without a pause before or
// behind the mark that is set there.
// Counts: all of it; the bytes live at each mark, and those of them allocated since the mark
// before. Arguments: marks.
// build: -pthread
#include "witness.h"
#include <pthread.h>
#include <stdatomic.h>

#include "../../crates/probe/include/heapwise.h"

enum { THREADS = 4, BLOCKS = 64, EVENTS = 3000 };
static pthread_barrier_t meeting;
static uint64_t marks;
// Bytes live of those allocated since the last mark.
static _Atomic uint64_t young;

struct slot {
    struct w_block block;
    uint64_t round;
};

static void release(struct slot *slot, uint64_t round) {
    if (slot->block.p && slot->round == round) atomic_fetch_sub(&young, slot->block.size);
    if (slot->block.p) w_free(slot->block);
    slot->block.p = NULL;
}

static void *work(void *argument) {
    struct slot slots[BLOCKS] = {0};
    uint32_t seed = (uint32_t)(uintptr_t)argument * 7919 + 1;
    for (uint64_t round = 0; round < marks; round++) {
        for (int i = 0; i < EVENTS; i++) {
            seed = seed * 1664525 + 1013904223;
            struct slot *slot = &slots[seed >> 10 & (BLOCKS - 1)];
            release(slot, round);
            *slot = (struct slot){w_malloc(1 + (seed >> 18) % 500), round};
            atomic_fetch_add(&young, slot->block.size);
        }
        pthread_barrier_wait(&meeting);
        pthread_barrier_wait(&meeting);
    }
    for (int i = 0; i < BLOCKS; i++) release(&slots[i], marks);
    return NULL;
}

static void say(const char *what, uint64_t number, uint64_t value) {
    char text[32];
    *w_append_number(w_append(text, text + 31, what), text + 31, number) = 0;
    w_say("", text, value);
}

int main(int argc, char **argv) {
    marks = w_argument(argc, argv, 1, 20);
    pthread_t threads[THREADS];
    pthread_barrier_init(&meeting, NULL, THREADS + 1);
    for (uintptr_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    for (uint64_t mark = 1; mark <= marks; mark++) {
        char text[32];
        pthread_barrier_wait(&meeting);
        *w_append_number(w_append(text, text + 31, "meeting "), text + 31, mark) = 0;
        hw_mark(text);
        say("live", mark, w_total.alloc_bytes - w_total.free_bytes);
        say("young", mark, atomic_exchange(&young, 0));
        pthread_barrier_wait(&meeting);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    w_report("");
    return 0;
}
