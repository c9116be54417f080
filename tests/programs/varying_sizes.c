// Hazard: sizes that vary at every site. Counts: all blocks. Argument: blocks.
#include "witness.h"

enum { SLOTS = 777 };
static struct w_block slots[SLOTS];

static W_SITE void w_one(int slot, size_t size) { w_free(slots[slot]), slots[slot] = w_malloc(size); }
static W_SITE void w_two(int slot, size_t size) { w_realloc(&slots[slot], size); }

int main(int argc, char **argv) {
    uint64_t blocks = w_argument(argc, argv, 1, 20000), seed = 3;
    for (uint64_t i = 0; i < blocks; i++) {
        uint64_t random = w_random(&seed);
        (random & 1 ? w_one : w_two)((int)((random >> 8) % SLOTS), 1 + (random >> 32) % 200000);
    }
    w_report("");
    return 0;
}
