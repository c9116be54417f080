// Hazard: none; bursts of work with quiet between them, whose middles the program marks.
// Counts: all of it; per step the bytes live at its mark and the most that were live since the mark
// before, at any moment. Arguments: steps.
#include "witness.h"
#include <time.h>

#include "../../crates/probe/include/heapwise.h"

enum { BLOCKS = 4000 };
static struct w_block live[BLOCKS];

static uint64_t live_bytes(void) { return w_total.alloc_bytes - w_total.free_bytes; }

// Far longer than the recorder's clock may stop before the probe reads its own clock.
static void quiet(void) { nanosleep(&(struct timespec){0, 25000000}, NULL); }

static uint64_t burst(uint64_t step) {
    uint64_t most = live_bytes();
    for (uint64_t i = 0; i < 3 * BLOCKS; i++) {
        struct w_block *slot = &live[i * 7919 % BLOCKS];
        if (slot->p) w_free(*slot);
        *slot = (i + step) % 3 ? w_malloc(100 + (i * 31 + step * 577) % 900) : (struct w_block){0};
        struct w_block passing = w_malloc(50 + i % 7);
        if (live_bytes() > most) most = live_bytes();
        w_free(passing);
    }
    return most;
}

static void name(char *text, const char *what, uint64_t step) {
    *w_append_number(w_append(text, text + 31, what), text + 31, step) = 0;
}

int main(int argc, char **argv) {
    uint64_t steps = w_argument(argc, argv, 1, 10);
    char text[32];
    hw_mark("step0");
    quiet();
    for (uint64_t step = 1; step <= steps; step++) {
        uint64_t most = burst(step);
        quiet();
        name(text, "step", step);
        hw_mark(text);
        quiet();
        name(text, "live", step);
        w_say("", text, live_bytes());
        name(text, "most", step);
        w_say("", text, most);
    }
    w_report("");
    return 0;
}
