// Hazard: blocks of private heaps of mimalloc, copies of texts, and one heap that is deleted: its
// blocks stay.
// Counts: all of it, and `usable.alloc_bytes`, `usable.inuse_bytes` as mimalloc says. Argument:
// events. Compiled by a test, with the sources of mimalloc.
#include <mimalloc.h>

#include "../witness.h"

enum { HEAPS = 3, SLOTS = 900 };
struct slot {
    struct w_block block;
    size_t usable;
};
static struct slot slots[SLOTS];
static uint64_t allocated, live;
static const char w_text[] = "a text that mimalloc copies into a block of its own, whole or its first bytes";

// Every function of a heap that returns a new block.
static W_SITE struct w_block w_new(mi_heap_t *heap, uint64_t random, size_t count, size_t size) {
    size_t alignment = (size_t)8 << random / 16 % 8, all = count * size;
    size_t length = strlen(w_text), part = size % (length + 8);
    switch (random % 16) {
    case 0: return w_counted(mi_heap_malloc(heap, all), all);
    case 1: return w_counted(mi_heap_zalloc(heap, all), all);
    case 2: return w_counted(mi_heap_calloc(heap, count, size), all);
    case 3: return w_counted(mi_heap_mallocn(heap, count, size), all);
    case 4: return w_counted(mi_heap_malloc_small(heap, size % 1000), size % 1000);
    case 5: return w_counted(mi_heap_zalloc_small(heap, size % 1000), size % 1000);
    case 6: return w_counted(mi_heap_malloc_aligned(heap, all, alignment), all);
    case 7: return w_counted(mi_heap_zalloc_aligned(heap, all, alignment), all);
    case 8: return w_counted(mi_heap_malloc_aligned_at(heap, all, alignment, 8), all);
    case 9: return w_counted(mi_heap_calloc_aligned(heap, count, size, alignment), all);
    case 10: return w_counted(mi_heap_calloc_aligned_at(heap, count, size, alignment, 8), all);
    case 11: return w_counted(mi_strdup(w_text), length + 1);
    case 12: return w_counted(mi_heap_strdup(heap, w_text), length + 1);
    case 13: return w_counted(mi_strndup(w_text, part), (part < length ? part : length) + 1);
    case 14: return w_counted(mi_heap_strndup(heap, w_text, part), (part < length ? part : length) + 1);
    default: return w_counted(mi_malloc(all), all);
    }
}

// Every function of a heap that resizes a block. None of them fails here, nor gets a size of 0.
static W_SITE void w_resize(struct slot *slot, mi_heap_t *heap, uint64_t random, size_t count, size_t size) {
    struct w_block old = slot->block;
    size_t alignment = (size_t)8 << random / 16 % 8, all = count * size;
    void *p = NULL;
    switch (random % 8) {
    case 0: p = mi_heap_realloc(heap, old.p, all); break;
    case 1: p = mi_heap_reallocn(heap, old.p, count, size); break;
    case 2: p = mi_heap_reallocf(heap, old.p, all); break;
    case 3: p = mi_heap_rezalloc(heap, old.p, all); break;
    case 4: p = mi_heap_recalloc(heap, old.p, count, size); break;
    case 5: p = mi_heap_realloc_aligned(heap, old.p, all, alignment); break;
    case 6: p = mi_heap_rezalloc_aligned(heap, old.p, all, alignment); break;
    default: p = mi_heap_recalloc_aligned(heap, old.p, count, size, alignment);
    }
    W_REQUIRE(p);
    if (old.p) w_count_free(old.size);
    w_count_alloc(all);
    slot->block = (struct w_block){p, all};
}

static W_SITE void w_give(struct slot *slot) {
    if (slot->block.p) w_count_free(slot->block.size);
    mi_free(slot->block.p);
    slot->block = (struct w_block){0};
}

int main(int argc, char **argv) {
    uint64_t events = w_argument(argc, argv, 1, 20000), seed = 5;
    mi_heap_t *heaps[HEAPS];
    for (int h = 0; h < HEAPS; h++) heaps[h] = mi_heap_new();
    for (uint64_t i = 0; i < events; i++) {
        uint64_t random = w_random(&seed);
        struct slot *slot = &slots[random % SLOTS];
        mi_heap_t *heap = heaps[random / SLOTS % HEAPS];
        size_t size = w_random_size(&seed), count = 1 + random % 3;
        live -= slot->usable;
        if (w_random(&seed) % 3) {
            w_give(slot);
            slot->block = w_new(heap, w_random(&seed), count, size);
        } else {
            w_resize(slot, heap, w_random(&seed), count, size);
        }
        slot->usable = mi_usable_size(slot->block.p);
        live += slot->usable, allocated += slot->usable;
    }
    mi_heap_delete(heaps[0]);
    for (int i = 0; i < SLOTS; i += 2) live -= slots[i].usable, w_give(&slots[i]);
    w_report("");
    w_say("usable.", "alloc_bytes", allocated);
    w_say("usable.", "inuse_bytes", live);
    return 0;
}
