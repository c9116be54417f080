// Hazard: the whole heap is replaced over and over, so that what was live a moment ago is freed now. Counts:
// `inuse_bytes`, the bytes that are live at any moment, within 4 096 blocks. Runs until it is killed; ends
// with the test in any case.
#include "witness.h"

enum { BLOCKS = 4096, SIZE = 800 };
static struct w_block blocks[BLOCKS];

int main(void) {
    alarm(60);
    for (int i = 0; i < BLOCKS; i++) blocks[i] = w_malloc(SIZE);
    w_say("", "inuse_bytes", (uint64_t)BLOCKS * SIZE);
    for (uint64_t i = 0;; i++) {
        struct w_block *block = &blocks[i % BLOCKS];
        w_free(*block);
        *block = w_malloc(SIZE);
    }
}
