// Hazard: every other way to allocate memory: aligned, page-wise, arrays, and the usable size of
// the result.
// Counts: all of it, requested sizes (pvalloc's before rounding up). Argument: rounds.
#include "witness.h"

static W_SITE struct w_block w_aligned_alloc(size_t alignment, size_t size) {
    return w_counted(aligned_alloc(alignment, size), size);
}
static W_SITE struct w_block w_memalign_old(size_t alignment, size_t size) {
    return w_counted(memalign(alignment, size), size);
}
static W_SITE struct w_block w_valloc(size_t size) { return w_counted(valloc(size), size); }
static W_SITE struct w_block w_pvalloc(size_t size) { return w_counted(pvalloc(size), size); }
static W_SITE struct w_block w_reallocarray(struct w_block old, size_t count, size_t size) {
    if (old.p) w_count_free(old.size);
    return w_counted(reallocarray(old.p, count, size), count * size);
}

static void check(struct w_block block, size_t alignment) {
    W_REQUIRE(block.p && (uintptr_t)block.p % alignment == 0);
    W_REQUIRE(malloc_usable_size(block.p) >= block.size);
    memset(block.p, 0x5a, block.size);
}

static void settle(struct w_block block, size_t alignment, int keep) {
    check(block, alignment);
    if (!keep) w_free(block);
}

int main(int argc, char **argv) {
    uint64_t rounds = w_argument(argc, argv, 1, 200);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (uint64_t round = 0; round < rounds; round++) {
        int keep = round % 5 == 0;
        for (size_t alignment = 16; alignment <= 64 << 10; alignment *= 4) {
            settle(w_memalign(alignment, 24 + round % 90), alignment, keep);
            settle(w_aligned_alloc(alignment, alignment * 2), alignment, 0);
            settle(w_memalign_old(alignment, 33), alignment, 0);
        }
        settle(w_valloc(100), page, 0);
        settle(w_pvalloc(page + 1), page, keep);
        struct w_block array = w_reallocarray((struct w_block){0}, 10, 12);
        settle(w_reallocarray(array, 100, 12), 16, keep);
        errno = 0;
        volatile size_t half = SIZE_MAX / 2;
        W_REQUIRE(calloc(half, 4) == NULL && errno == ENOMEM);
        W_REQUIRE(malloc_usable_size(NULL) == 0);
    }
    w_report("");
    return 0;
}
