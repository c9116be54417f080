// Hazard: none; a heap whose size over time is known.
// Counts: all of it; and writes to FILE a line `from to highest live` per burst of work: when it
// began and ended, in milliseconds since the mark `beginN` that it names, the most bytes that were
// live within it at any moment, and the bytes live after it. Between bursts nothing happens.
// Arguments: FILE, ms.
#include "witness.h"
#include <fcntl.h>
#include <time.h>

#include "../../crates/probe/include/heapwise.h"

enum { BLOCKS = 40000, PERIOD = 60, BURST = 15 };
static struct w_block live[BLOCKS];
static size_t top;

static uint64_t nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t live_bytes(void) { return w_total.alloc_bytes - w_total.free_bytes; }

static void log_burst(int file, const uint64_t *numbers) {
    char line[128], *end = line + 127, *to = line;
    for (int i = 0; i < 4; i++) to = w_append(w_append_number(to, end, numbers[i]), end, i < 3 ? " " : "\n");
    w_write(file, line, (size_t)(to - line));
}

// Without ticks of the recorder, the probe reads the clock once per 64 events: these events have
// size 0.
static void let_the_clock_be_read(void) {
    for (int i = 0; i < 100; i++) w_free(w_malloc(0));
}

// Climbs and falls: up for two bursts, down for one.
static uint64_t burst(uint64_t number, uint64_t until_ns) {
    uint64_t highest = live_bytes();
    for (int i = 0; i < 3000 && nanoseconds() < until_ns; i++) {
        if (number % 3 < 2 && top < BLOCKS) live[top] = w_malloc(200 + top % 1000), top++;
        else if (top) w_free(live[--top]);
        struct w_block passing = w_malloc(64 + (size_t)i % 9);
        if (live_bytes() > highest) highest = live_bytes();
        w_free(passing);
    }
    return highest;
}

// The moment of the mark `beginN`, which may be anywhere within the call: one that took no time
// names the moment best.
static uint64_t mark_begin(void) {
    for (uint64_t tries = 0;; tries++) {
        char name[32], *end = name + 31;
        *w_append_number(w_append(name, end, "begin"), end, tries) = 0;
        uint64_t before = nanoseconds();
        hw_mark(name);
        if (nanoseconds() - before > 1000000 && tries < 100) continue;
        w_say("", "begin", tries);
        return before;
    }
}

int main(int argc, char **argv) {
    W_REQUIRE(argc > 1);
    int file = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    W_REQUIRE(file >= 0);
    uint64_t total = w_argument(argc, argv, 2, 1500), peak = 0;
    uint64_t start = mark_begin(), now = start;
    for (uint64_t number = 0; now < start + total * 1000000; number++) {
        nanosleep(&(struct timespec){0, (PERIOD - BURST) * 1000000}, NULL);
        uint64_t from = nanoseconds();
        let_the_clock_be_read();
        uint64_t highest = burst(number, from + BURST * 1000000);
        now = nanoseconds();
        log_burst(file, (uint64_t[]){(from - start) / 1000000, (now - start) / 1000000 + 1, highest, live_bytes()});
        if (highest > peak) peak = highest;
    }
    w_report("");
    w_say("", "peak_bytes", peak);
    return 0;
}
