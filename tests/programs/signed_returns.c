// Hazard: return addresses in memory carry an authentication code (aarch64,
// -mbranch-protection=standard).
// Counts: all of it, at the end of main, outer, middle, inner; `signed` is 1 when a saved return
// address of its own is not a valid address. Argument: rounds.
// build: -fno-optimize-sibling-calls -fno-omit-frame-pointer
#include "witness.h"

#define LINK __attribute__((noinline, noclone))

static uint64_t signs;

static LINK void inner(uint64_t round) {
    // The frame record: the caller's, then the return address as it was stored.
    uintptr_t *record = __builtin_frame_address(0);
    signs |= record[1] >> 48;
    struct w_block block = w_malloc(10 + round % 50);
    if (round % 3) w_free(block);
}

static LINK void middle(uint64_t round) {
    inner(round);
    if (round % 2) inner(round + 1);
}

static LINK void outer(uint64_t round) {
    middle(round);
    __asm__ volatile("" ::: "memory");
}

int main(int argc, char **argv) {
    uint64_t rounds = w_argument(argc, argv, 1, 1000);
    for (uint64_t round = 0; round < rounds; round++) outer(round);
    w_report("");
    w_say("", "signed", signs != 0);
    return 0;
}
