// Hazard: a program that has the names of a sanitizer's functions in its data, as a compiler has.
// Counts: one block.
#include "witness.h"

const char *volatile names[] = {"__asan_init", "libasan.so", "__tsan_init"};

int main(void) {
    w_malloc(100);
    w_say("", "alloc_bytes", 100);
    return 0;
}
