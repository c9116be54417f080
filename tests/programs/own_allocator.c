// An executable with an allocator of its own, as one that links jemalloc statically: its blocks do
// not come from malloc.
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) void *je_malloc(size_t bytes) {
    static char heap[1 << 20];
    static size_t used;
    used += bytes;
    return used <= sizeof heap ? heap + used - bytes : NULL;
}

__attribute__((noinline)) void je_sdallocx(void *block, size_t bytes, int flags) {
    (void)block, (void)bytes, (void)flags;
}

int main(void) {
    void *block = je_malloc(1000);
    je_sdallocx(block, 1000, 0);
    free(malloc(10));
    printf("%d\n", block != NULL);
    return 0;
}
