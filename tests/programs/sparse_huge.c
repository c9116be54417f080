// Hazard: 64 GiB of address space in blocks that are hardly touched; a profiler that shadows what
// is allocated, instead of what is used, runs out of memory.
// Counts: all of it, plus `touched_bytes`. Argument: GiB. Pieces of 4 GiB: the kernel's default
// overcommit refuses a single request beyond the machine's memory.
#include "witness.h"

enum { MAX_PIECES = 1024 };

int main(int argc, char **argv) {
    const size_t piece = (size_t)4 << 30, page = 4096;
    uint64_t pieces = w_argument(argc, argv, 1, 64) / 4, touched = 0;
    W_REQUIRE(pieces <= MAX_PIECES);
    struct w_block blocks[MAX_PIECES];
    for (uint64_t i = 0; i < pieces; i++) {
        blocks[i] = w_malloc(piece);
        if (!blocks[i].p) return w_say("", "skipped", 1), 0; // overcommit is off here
        for (size_t at = 0; at < piece; at += piece / 8) {
            ((volatile char *)blocks[i].p)[at] = 1;
            touched += page;
        }
    }
    for (uint64_t i = 0; i < pieces; i += 2) w_free(blocks[i]);
    for (int i = 0; i < 1000; i++) w_free(w_malloc(100));
    w_report("");
    w_say("", "touched_bytes", touched);
    return 0;
}
