// Hazard: the process dies by SIGKILL, as under the OOM killer; its last state is all there is.
// Counts: all of it, printed just before. Argument: blocks.
#include "witness.h"
#include <signal.h>

int main(int argc, char **argv) {
    uint64_t blocks = w_argument(argc, argv, 1, 20000);
    for (uint64_t i = 0; i < blocks; i++) {
        struct w_block block = w_malloc(100 + i % 900);
        if (i % 3 == 0) w_free(block);
    }
    w_report("");
    kill(getpid(), SIGKILL);
    return 98;
}
