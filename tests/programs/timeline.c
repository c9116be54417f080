// Hazard: none; a heap whose size over time is known.
// Counts: all of it, and writes `ms bytes` of live memory every 10 ms to FILE (CLOCK_MONOTONIC, from the first
// block), each taken at a quiet moment. `peak_bytes` and `peak_ms` name the highest moment. Arguments: FILE, ms.
#include "witness.h"
#include <fcntl.h>
#include <time.h>

enum { BLOCKS = 40000 };
static struct w_block live[BLOCKS];
static size_t top;
static int file;

static uint64_t milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static uint64_t live_bytes(void) { return w_total.alloc_bytes - w_total.free_bytes; }

static void log_point(uint64_t ms) {
    char line[64], *end = line + 63, *to = w_append_number(line, end, ms);
    to = w_append_number(w_append(to, end, " "), end, live_bytes());
    *to++ = '\n';
    w_write(file, line, (size_t)(to - line));
}

// Three climbs and falls over the run: up for two thirds of each period, down for one.
static void step(uint64_t ms, uint64_t total) {
    uint64_t period = total / 3 + 1, phase = ms % period;
    int up = phase * 3 < period * 2;
    for (int i = 0; i < 50; i++) {
        if (up && top < BLOCKS) live[top] = w_malloc(200 + top % 1000), top++;
        else if (!up && top) w_free(live[--top]);
    }
    w_free(w_malloc(64));
}

int main(int argc, char **argv) {
    W_REQUIRE(argc > 1);
    file = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    W_REQUIRE(file >= 0);
    uint64_t total = w_argument(argc, argv, 2, 1000), start = milliseconds();
    uint64_t next = 0, now = 0, peak = 0, peak_ms = 0;
    while ((now = milliseconds() - start) < total) {
        if (now >= next) log_point(now), next = now - now % 10 + 10;
        step(now, total);
        if (live_bytes() > peak) peak = live_bytes(), peak_ms = now;
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    w_report("");
    w_say("", "peak_bytes", peak);
    w_say("", "peak_ms", peak_ms);
    return 0;
}
