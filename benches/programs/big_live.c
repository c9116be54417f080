// A heap of 400 000 live blocks, linked, sorted by nobody, replaced at random: what an index of
// live blocks costs when it does not fit the caches. Argument: scale.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS = 400000 };
struct item {
    uint64_t value;
    char rest[];
};
static struct item *live[BLOCKS];

static __attribute__((noinline)) struct item *make(uint64_t random) {
    struct item *item = malloc(sizeof *item + random % 240);
    if (!item) abort();
    item->value = random;
    return item;
}

int main(int argc, char **argv) {
    int scale = argc > 1 ? atoi(argv[1]) : 12;
    uint64_t state = 1, sum = 0;
    for (int i = 0; i < BLOCKS; i++) live[i] = make((uint64_t)i * 2654435761u);
    for (uint64_t i = 0; i < (uint64_t)scale * 1000000; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        struct item **place = &live[state % BLOCKS];
        sum += (*place)->value;
        free(*place);
        *place = make(state >> 20);
    }
    printf("checksum %llu\n", (unsigned long long)sum);
    return 0;
}
