// Hazard: another C library: its loader honours LD_PRELOAD but cannot load an object made for
// glibc.
// Counts: all of it, for itself; a profiler must give a clear message, or correct numbers.
// native: musl-gcc compiles for this machine only
// compiler: musl-gcc
// needs: /usr/bin/musl-gcc
#include "witness.h"

int main(void) {
    for (int i = 0; i < 1000; i++) {
        struct w_block block = w_malloc(85);
        if (i % 2) w_free(block);
    }
    w_report("");
    return 0;
}
