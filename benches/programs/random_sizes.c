// Replaces random blocks of random size, allocated from STACKS stacks of their own: sizes that
// vary, as in every server with strings or network buffers. Arguments: thousands of blocks, largest
// size, stacks.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { SLOTS = 4096 };
static unsigned char *table[SLOTS];
static size_t sizes[SLOTS];
static uint64_t blocks, bytes, live_bytes;

static uint64_t next(uint64_t *state) {
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return *state;
}

// Two call sites a level, so that the bits of `which` choose one of many stacks.
static __attribute__((noinline)) unsigned char *request(unsigned which, unsigned levels, size_t size) {
    unsigned char *block;
    if (levels == 0) {
        block = malloc(size);
        if (!block) abort();
        block[0] = 1, block[size - 1] = 1;
        return block;
    }
    if (which & 1) {
        block = request(which >> 1, levels - 1, size);
        __asm__ volatile("" ::: "memory");
        return block;
    }
    block = request(which >> 1, levels - 1, size);
    __asm__ volatile("nop" ::: "memory");
    return block;
}

int main(int argc, char **argv) {
    uint64_t count = (argc > 1 ? strtoull(argv[1], NULL, 10) : 2000) * 1000, state = 88172645463325252ULL;
    size_t largest = argc > 2 ? strtoull(argv[2], NULL, 10) : 20000;
    unsigned stacks = argc > 3 ? (unsigned)atoi(argv[3]) : 64, levels = 0;
    while (1u << levels < stacks) levels++;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t random = next(&state);
        unsigned slot = random % SLOTS;
        size_t size = 1 + (random >> 20) % largest;
        free(table[slot]);
        live_bytes += size - sizes[slot];
        table[slot] = request((random >> 12) % stacks, levels, size);
        sizes[slot] = size;
        blocks++, bytes += size;
    }
    printf("blocks %llu bytes %llu live_bytes %llu\n", (unsigned long long)blocks, (unsigned long long)bytes,
           (unsigned long long)live_bytes);
    return 0;
}
