// Hazard: recording begins when blocks are there already, which are then freed.
// Counts: `early.free_objects` freed of what was there before; of what came later all of it,
// through `w_late`. Waits for a line on stdin before the second part (`ready`) and before its end.
// Argument: blocks.
#include "witness.h"

enum { MOST = 1 << 18 };
static struct w_block early[MOST], late[MOST];
static struct w_account after;

static W_SITE struct w_block w_early(size_t size) {
    struct w_block block = w_malloc(size);
    W_REQUIRE(block.p);
    return block;
}

static W_SITE struct w_block w_late(size_t size) {
    struct w_block block = w_malloc(size);
    after.alloc_objects++, after.alloc_bytes += size;
    return block;
}

static void free_late(struct w_block block) {
    after.free_objects++, after.free_bytes += block.size;
    w_free(block);
}

static void await_line(void) {
    char letter = 0;
    while (letter != '\n' && read(0, &letter, 1) > 0) {}
}

// An idle probe polls its control page once per 32 KiB.
static void let_orders_arrive(void) {
    for (int i = 0; i < 100; i++) {
        void *p = malloc(4096);
        __asm__ volatile("" ::"r"(p) : "memory");
        free(p);
    }
}

int main(int argc, char **argv) {
    uint64_t blocks = w_argument(argc, argv, 1, 50000), seed = 3;
    W_REQUIRE(blocks <= MOST);
    for (uint64_t i = 0; i < blocks; i++) early[i] = w_early(w_random_size(&seed));
    w_say("", "ready", 1);
    await_line();
    let_orders_arrive();
    for (uint64_t i = 0; i < blocks; i++) {
        late[i] = w_late(w_random_size(&seed));
        if (i % 3) w_free(early[i]);
        if (i % 2) free_late(late[i]);
    }
    w_report_account("", &after);
    w_say("early.", "free_objects", blocks - (blocks + 2) / 3);
    await_line();
    return 0;
}
