// Hazard: the whole heap is replaced over and over, so that what was live a moment ago is freed
// now. Counts: `inuse_bytes`, the bytes that are live at any moment, within one block. Arguments:
// the number of blocks (4096); a number of blocks after which it sleeps for a millisecond (never).
// Runs until it is killed; ends by itself after an hour in any case.
#include <stdlib.h>
#include <unistd.h>

#include "witness.h"

enum { MOST_BLOCKS = 1 << 16, SIZE = 800 };
static struct w_block blocks[MOST_BLOCKS];

int main(int argc, char **argv) {
    alarm(3600);
    uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 4096;
    uint64_t burst = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    for (uint64_t i = 0; i < count; i++) blocks[i] = w_malloc(SIZE);
    w_say("", "inuse_bytes", count * SIZE);
    for (uint64_t i = 0;; i++) {
        struct w_block *block = &blocks[i % count];
        w_free(*block);
        *block = w_malloc(SIZE);
        if (burst && i % burst == 0) usleep(1000);
    }
}
