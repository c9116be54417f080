// Hazard: _exit ends the process with no destructor, no atexit, nothing flushed.
// Counts: all of it. Arguments: blocks, exit status.
#include "witness.h"

int main(int argc, char **argv) {
    uint64_t blocks = w_argument(argc, argv, 1, 10000);
    for (uint64_t i = 0; i < blocks; i++) {
        struct w_block block = w_malloc(24 + i % 100);
        if (i % 10) w_free(block);
    }
    w_report("");
    _exit((int)w_argument(argc, argv, 2, 0));
}
