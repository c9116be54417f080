// Hazard: two kinds of leak; blocks that are unreachable, and blocks still held at exit.
// Counts: all of it, plus `lost_*` (w_lose, unreachable) and `held_*` (w_hold, reachable).
// Argument: blocks.
#include "witness.h"

struct held {
    struct held *next;
    char data[104];
};
static struct held *list;
static struct w_account lost, held;

static W_SITE void w_lose(size_t size) {
    w_malloc(size);
    lost.alloc_objects++, lost.alloc_bytes += size;
}

static W_SITE void w_hold(void) {
    struct held *node = (struct held *)w_malloc(sizeof *node).p;
    node->next = list;
    list = node;
    held.alloc_objects++, held.alloc_bytes += sizeof *node;
}

int main(int argc, char **argv) {
    uint64_t blocks = w_argument(argc, argv, 1, 1000);
    for (uint64_t i = 0; i < blocks; i++) {
        w_lose(100 + i % 50);
        w_hold();
        w_free(w_malloc(400));
    }
    // The last pointer to a lost block must not survive in a dead stack slot or the allocator's
    // cache.
    char wipe[16384];
    explicit_bzero(wipe, sizeof wipe);
    w_report("");
    w_say("lost_", "objects", lost.alloc_objects);
    w_say("lost_", "bytes", lost.alloc_bytes);
    w_say("held_", "objects", held.alloc_objects);
    w_say("held_", "bytes", held.alloc_bytes);
    return 0;
}
