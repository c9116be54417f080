// Hazard: none; blocks of mixed sizes from three call sites, replaced in random order.
// Counts: all of it, and per site `site.w_fresh|w_zeroed|w_resized.alloc_*`. Arguments: events,
// seed.
#include "witness.h"

enum { SLOTS = 4096 };
static struct w_block slots[SLOTS];
static struct w_account fresh, zeroed, resized;

static void note(struct w_account *site, size_t size) {
    site->alloc_objects++;
    site->alloc_bytes += size;
}

static W_SITE void w_fresh(struct w_block *slot, size_t size) {
    w_free(*slot);
    *slot = w_malloc(size);
    note(&fresh, size);
}

static W_SITE void w_zeroed(struct w_block *slot, size_t size) {
    w_free(*slot);
    *slot = w_calloc(1, size);
    note(&zeroed, size);
}

static W_SITE void w_resized(struct w_block *slot, size_t size) {
    w_realloc(slot, size);
    note(&resized, size);
}

static void report_site(const char *prefix, const struct w_account *site) {
    w_say(prefix, "alloc_objects", site->alloc_objects);
    w_say(prefix, "alloc_bytes", site->alloc_bytes);
}

int main(int argc, char **argv) {
    uint64_t events = w_argument(argc, argv, 1, 100000);
    uint64_t seed = w_argument(argc, argv, 2, 1);
    for (uint64_t i = 0; i < events; i++) {
        struct w_block *slot = &slots[w_random(&seed) % SLOTS];
        size_t size = w_random_size(&seed);
        switch (w_random(&seed) % 8) {
        case 0: w_zeroed(slot, size); break;
        case 1: w_resized(slot, size); break;
        case 2: w_free(*slot), *slot = (struct w_block){0}; break;
        default: w_fresh(slot, size);
        }
    }
    w_report("");
    report_site("site.w_fresh.", &fresh);
    report_site("site.w_zeroed.", &zeroed);
    report_site("site.w_resized.", &resized);
    return 0;
}
