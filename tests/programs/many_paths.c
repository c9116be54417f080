// Hazard: 2^26 possible stacks: 26 levels of functions with two call sites each, far more than any
// table holds.
// Counts: all of it. No function but `w_malloc` allocates. Arguments: blocks.
#include "witness.h"

enum { LEVELS = 26, SLOTS = 1 << 16 };
static struct w_block slots[SLOTS];

__attribute__((noinline)) static struct w_block w_leaf(uint64_t size) { return w_malloc(size); }

__attribute__((noinline)) static struct w_block w_level(int level, uint32_t path) {
    struct w_block block;
    if (level == LEVELS) return w_leaf(64);
    if (path >> level & 1) {
        block = w_level(level + 1, path);
        __asm__ volatile("" : "+m"(block));
    } else {
        block = w_level(level + 1, path);
        __asm__ volatile("nop" : "+m"(block));
    }
    return block;
}

int main(int argc, char **argv) {
    uint64_t blocks = w_argument(argc, argv, 1, 1000000);
    uint32_t seed = 1;
    for (uint64_t i = 0; i < blocks; i++) {
        seed = seed * 1664525 + 1013904223;
        struct w_block *slot = &slots[i % SLOTS];
        if (slot->p) w_free(*slot);
        *slot = w_level(0, seed >> 6);
    }
    w_report("");
    return 0;
}
