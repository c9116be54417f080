// Hazard: many small blocks that are larger than requested, a sample of which is recorded.
// Counts: all of it; `usable.bytes` of what is live. Arguments: least requested size, blocks.
#include "witness.h"

int main(int argc, char **argv) {
    uint64_t least = w_argument(argc, argv, 1, 25), blocks = w_argument(argc, argv, 2, 300000), usable = 0;
    for (uint64_t i = 0; i < blocks; i++) usable += malloc_usable_size(w_malloc(least + i % 4).p);
    w_report("");
    w_say("usable.", "bytes", usable);
    w_say("", "pid", (uint64_t)getpid());
    return 0;
}
