// Hazard: the profiler is switched while the program allocates, and read at quiet moments.
// Counts: per phase and in total. Reads commands from stdin, one a line:
//   pause  finish the current step, print `phaseN.…` (since the last pause) and "" totals, wait
//   go     the next phase
//   stop   (or end of input) print the totals and end
// Argument: blocks per step (a step is followed by 1 ms of rest).
#include "witness.h"
#include <poll.h>

enum { SLOTS = 2048 };
static struct w_block slots[SLOTS];

static void step(uint64_t blocks, uint64_t *seed) {
    for (uint64_t i = 0; i < blocks; i++) {
        struct w_block *slot = &slots[w_random(seed) % SLOTS];
        w_free(*slot);
        *slot = w_malloc(w_random_size(seed));
    }
}

// First letter of the next command; 0 when there is none yet.
static char command(int wait_ms) {
    struct pollfd in = {0, POLLIN, 0};
    if (poll(&in, 1, wait_ms) <= 0) return 0;
    char letter = 0, rest = 0;
    if (read(0, &letter, 1) <= 0) return 's';
    while (rest != '\n' && read(0, &rest, 1) > 0) {}
    return letter;
}

static void report_phase(uint64_t phase, const struct w_account *since) {
    struct w_account now = w_total;
    now.alloc_objects -= since->alloc_objects, now.alloc_bytes -= since->alloc_bytes;
    now.free_objects -= since->free_objects, now.free_bytes -= since->free_bytes;
    char prefix[32], *to = w_append(prefix, prefix + 31, "phase");
    *w_append(w_append_number(to, prefix + 31, phase), prefix + 31, ".") = 0;
    w_say(prefix, "alloc_objects", now.alloc_objects);
    w_say(prefix, "alloc_bytes", now.alloc_bytes);
    w_say(prefix, "free_objects", now.free_objects);
    w_say(prefix, "free_bytes", now.free_bytes);
    w_report("");
}

int main(int argc, char **argv) {
    uint64_t blocks = w_argument(argc, argv, 1, 200), seed = 1, phase = 1;
    struct w_account since = {0};
    for (char next = 0; next != 's'; next = command(1)) {
        step(blocks, &seed);
        if (next != 'p') continue;
        report_phase(phase++, &since);
        since = w_total;
        while ((next = command(-1)) != 'g')
            if (next == 's') return w_report(""), 0;
    }
    w_report("");
    return 0;
}
