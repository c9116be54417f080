// Hazard: a recursion that goes on at either of two places, and comes to the same stacks in the
// same order again: each is recognised by its last frames, and by what came before it.
// Counts: all of it; two blocks a node, one freed on the way up. The last rounds go other ways.
// Arguments: nodes, rounds.
#include "witness.h"

static W_SITE void w_node(uint64_t nodes, uint64_t round) {
    struct w_block node = w_malloc(24 + nodes % 40);
    struct w_block name = w_malloc(40 + round % 2);
    uint64_t rest = nodes - 1, small = rest / 4;
    if (small) w_node(small, round);
    if (rest > small) w_node(rest - small, round / 2);
    w_free(nodes % 2 ? node : name);
    __asm__ volatile("" ::: "memory");
}

int main(int argc, char **argv) {
    uint64_t nodes = w_argument(argc, argv, 1, 3000);
    uint64_t rounds = w_argument(argc, argv, 2, 6);
    for (uint64_t i = 0; i < rounds; i++) w_node(i < 4 ? nodes : nodes / (i + 1), i);
    w_report("");
    return 0;
}
