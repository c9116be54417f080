// Hazard: more stacks than small tables hold. Counts: all blocks; argument: stacks (rounded down to a power
// of two for their call paths).
#include "witness.h"

static struct w_block last;

static W_SITE void w_path(unsigned which, unsigned levels, size_t size) {
    if (levels == 0) {
        w_free(last);
        last = w_malloc(size);
    } else if (which & 1) {
        w_path(which >> 1, levels - 1, size);
        __asm__ volatile("" ::: "memory");
    } else {
        w_path(which >> 1, levels - 1, size);
        __asm__ volatile("nop" ::: "memory");
    }
}

int main(int argc, char **argv) {
    unsigned stacks = (unsigned)w_argument(argc, argv, 1, 40000), levels = 0;
    while (2u << levels <= stacks) levels++;
    for (unsigned round = 0; round < 2; round++)
        for (unsigned i = 0; i < 1u << levels; i++) w_path(i, levels, 1 + i % 300);
    w_report("");
    return 0;
}
