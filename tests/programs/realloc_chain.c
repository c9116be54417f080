// Hazard: realloc in place and moved, growing and shrinking, from NULL, to 0, and failing.
// Counts: all of it, plus `realloc_calls`, `moved` and `in_place`. Argument: rounds.
#include "witness.h"

static uint64_t calls, moved, in_place;

static void step(struct w_block *block, size_t size) {
    void *before = block->p;
    unsigned char mark = before && block->size ? *(unsigned char *)before : 0;
    int had_bytes = before && block->size;
    w_realloc(block, size);
    calls++;
    if (!before || !block->p) return;
    if (block->p == before) in_place++;
    else moved++;
    W_REQUIRE(!had_bytes || *(unsigned char *)block->p == mark);
}

static struct w_block chain(uint64_t round) {
    struct w_block block = {0};
    step(&block, 16 + round % 32);
    memset(block.p, (int)(1 + round % 250), block.size);
    for (size_t size = 64; size <= 512 << 10; size = size * 2 + round % 7) {
        step(&block, size);
        // A neighbour right behind the block forces the next growth to move in every other round.
        if (round & 1) w_free(w_malloc(24));
    }
    for (size_t size = block.size; size > 40; size /= 3) step(&block, size);
    return block;
}

int main(int argc, char **argv) {
    uint64_t rounds = w_argument(argc, argv, 1, 200);
    for (uint64_t round = 0; round < rounds; round++) {
        struct w_block block = chain(round);
        step(&block, block.size);

        void *kept = block.p;
        size_t size = block.size;
        w_realloc(&block, (size_t)PTRDIFF_MAX); // refused: the block stays
        W_REQUIRE(errno == ENOMEM && block.p == kept && block.size == size);

        if (round % 4 == 0) continue; // a quarter of the chains stays alive
        step(&block, 0);
        W_REQUIRE(!block.p);
    }
    w_report("");
    w_say("", "realloc_calls", calls);
    w_say("", "moved", moved);
    w_say("", "in_place", in_place);
    return 0;
}
