// Every block comes through one wrapper function, from 62 stacks of depth 5 to 10: what `xmalloc`,
// `zmalloc` or `operator new` do to a profiler that looks at the innermost caller first. Argument:
// millions of blocks.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { KEPT = 64 };
static void *kept[KEPT];
static uint64_t blocks, bytes;

static __attribute__((noinline)) void *xmalloc(size_t size) {
    void *block = malloc(size);
    if (!block) abort();
    blocks++, bytes += size;
    return block;
}

#define LEAF(n)                                                                                     \
    static __attribute__((noinline)) void *leaf_##n(size_t size) {                                  \
        void *block = xmalloc(size + n);                                                            \
        *(volatile char *)block = n;                                                                \
        return block;                                                                               \
    }
LEAF(0) LEAF(1) LEAF(2) LEAF(3) LEAF(4) LEAF(5) LEAF(6)
#define ALL(size, n)                                                                                \
    (n == 0   ? leaf_0(size)                                                                        \
     : n == 1 ? leaf_1(size)                                                                        \
     : n == 2 ? leaf_2(size)                                                                        \
     : n == 3 ? leaf_3(size)                                                                        \
     : n == 4 ? leaf_4(size)                                                                        \
     : n == 5 ? leaf_5(size)                                                                        \
              : leaf_6(size))

static __attribute__((noinline)) void *deep(unsigned depth, unsigned leaf, size_t size) {
    void *block = depth == 0 ? ALL(size, leaf) : deep(depth - 1, leaf, size);
    __asm__ volatile("" ::: "memory");
    return block;
}

int main(int argc, char **argv) {
    uint64_t count = (argc > 1 ? strtoull(argv[1], NULL, 10) : 30) * 1000000, state = 0x2545f4914f6cdd1dULL;
    for (uint64_t i = 0; i < count; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        unsigned which = (state >> 8) % 62, slot = state % KEPT;
        free(kept[slot]);
        kept[slot] = deep(1 + which / 7 % 6 + which % 2, which % 7, 24 + which % 4 * 16);
    }
    printf("blocks %llu bytes %llu\n", (unsigned long long)blocks, (unsigned long long)bytes);
    return 0;
}
