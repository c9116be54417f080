// Hazard: stacks deeper than any limit; the frames of interest are at both ends.
// Counts: all of it; one block a level on the way down, every other freed on the way up. Arguments:
// depth, rounds.
#include "witness.h"

static W_SITE void w_level(uint64_t depth) {
    struct w_block block = w_malloc(16 + depth % 64);
    if (depth) w_level(depth - 1);
    if (depth % 2) w_free(block);
    __asm__ volatile("" ::: "memory");
}

int main(int argc, char **argv) {
    uint64_t depth = w_argument(argc, argv, 1, 2000);
    uint64_t rounds = w_argument(argc, argv, 2, 5);
    for (uint64_t i = 0; i < rounds; i++) w_level(depth);
    w_report("");
    return 0;
}
