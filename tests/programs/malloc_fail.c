// Hazard: allocations that cannot succeed return NULL with ENOMEM; all others leave errno alone.
// Counts: all of it, plus `refused` calls. Argument: rounds.
#include "witness.h"

static uint64_t refused;

static void refuse(void *p) {
    W_REQUIRE(p == NULL && errno == ENOMEM);
    refused++;
}

static void impossible(void) {
    volatile size_t huge = PTRDIFF_MAX, overflow = SIZE_MAX / 2;
    errno = 0, refuse(malloc(huge));
    errno = 0, refuse(calloc(overflow, 3));
    errno = 0, refuse(calloc(huge / 8, 8));
    errno = 0, refuse(aligned_alloc(64, huge - 63));
    errno = 0, refuse(memalign(4096, huge));
    errno = 0, refuse(reallocarray(NULL, overflow, 3));

    void *untouched = &refused;
    errno = 77;
    W_REQUIRE(posix_memalign(&untouched, 64, huge) == ENOMEM);
    W_REQUIRE(untouched == &refused);
    W_REQUIRE(posix_memalign(&untouched, 3, 8) == EINVAL);
    refused += 2;
}

static void ordinary(uint64_t round) {
    errno = 77;
    struct w_block a = w_malloc(round % 300), b = w_calloc(round % 9, 8), c = w_memalign(64, 100);
    W_REQUIRE(errno == 77);
    w_realloc(&a, 5000 + round % 100);
    w_realloc(&a, 10);
    W_REQUIRE(errno == 77);
    W_REQUIRE(malloc_usable_size(a.p) >= 10 && errno == 77);
    w_free(a);
    W_REQUIRE(errno == 77);
    w_free(b);
    if (round % 10) w_free(c);
    struct w_block mapped = w_malloc(1 << 20); // munmap inside free must not leak its errno either
    w_free(mapped);
    W_REQUIRE(errno == 77);
}

int main(int argc, char **argv) {
    uint64_t rounds = w_argument(argc, argv, 1, 1000);
    for (uint64_t round = 0; round < rounds; round++) {
        impossible();
        ordinary(round);
    }
    w_report("");
    w_say("", "refused", refused);
    return 0;
}
