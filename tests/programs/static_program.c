// Hazard: a static executable: no dynamic loader, so nothing can be preloaded.
// Counts: all of it, for itself: a profiler can only report that it does not work here.
// build: -static
#include "witness.h"

int main(void) {
    for (int i = 0; i < 1000; i++) {
        struct w_block block = w_malloc(90);
        if (i % 2) w_free(block);
    }
    w_report("");
    return 0;
}
